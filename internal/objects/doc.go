// Package objects makes API objects for benchmarks. They have the size and shape of objects in real
// clusters, can be made in any number, and are reproducible from a seed.
//
// # Usage
//
//	load, err := apiservertest.NewLoad(apiservertest.LoadOptions{
//		Resource: pods,
//		Objects:  50_000,
//		New:      func(i int) object.Object { return objects.Pod(1, i, objects.Options{}) },
//		Change:   func(obj object.Object, i int) { objects.Touch(obj, 1) },
//	})
//
// # What repeats
//
// Repetition matters to a decoder that shares equal parts between objects, so it determines the results.
// Objects are replicas of 200 applications in 50 namespaces on 1000 nodes. Replicas have the same parts
// in common as in a real cluster, where controllers and the API server set them:
//
//   - labels, the owner, and the fields that the controller manages;
//   - the image, command, environment, ports, resources and probes of each container, but not the
//     container as a whole: it mounts the service account's volume, whose name is random;
//   - tolerations, and the content of the service account's volume.
//
// Name, UID, resource version, times, node, IPs and container IDs are unique to each object. So is the
// kubelet's entry in managedFields, because it contains the pod's IP. Neighbours belong to different
// applications; a real list is ordered by name and has replicas side by side, which is easier.
//
// With [Options.Alike], the kubelet's entry and the conditions, with their times, also repeat in the pods
// of an application, as in a cluster that runs few images and has started their replicas together.
//
// With [Options.Hostile], the only things that repeat are the words of the API itself (field names,
// phases, types of conditions, policies) and pieces of a few bytes made of them.
//
// # Guarantees
//
// An object depends only on seed, index and options, not on earlier calls or the machine. No two
// objects share mutable memory.
//
// # Concurrency
//
// All functions may be called concurrently; Touch modifies its argument.
//
// # Failure
//
// There is an object for every seed and every index from 0. For types that this package does not make,
// [Touch] and [Next] change only the metadata.
//
// # Debugging
//
// The tests document and check sizes, repetition, and a digest of the first objects, so changes
// to the benchmarks do not go unnoticed.
package objects
