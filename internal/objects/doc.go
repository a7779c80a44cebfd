// Package objects generates API objects for benchmarks. They have the size and shape of objects in real
// clusters, can be generated in any number, and are reproducible from a seed.
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
// # Repetition
//
// The results depend on how much content repeats, because the decoder shares equal values between objects.
// Objects are replicas of 200 applications in 50 namespaces on 1000 nodes. Replicas share the same values
// as in a real cluster, where controllers and the API server set them:
//
//   - labels, the owner, and the fields that the controller manages;
//   - the image, command, environment, ports, resources and probes of each container, but not the
//     container as a whole: it mounts the service account's volume, whose name is random;
//   - tolerations, and the contents of the service account's volume.
//
// Name, UID, resource version, times, node, IPs and container IDs are unique to each object. So is the
// kubelet's entry in managedFields, because it contains the pod's IP. Adjacent objects belong to different
// applications. In real lists, which are ordered by name, replicas are adjacent, which is an easier case.
//
// With [Options.Alike], the kubelet's entry and the conditions, with their times, also repeat in the pods
// of an application, as in a cluster that runs few images and has started their replicas together.
//
// With [Options.Hostile], nothing repeats except the vocabulary of the API itself (field names, phases,
// condition types, policies) and fragments of a few bytes.
//
// # Guarantees
//
// An object depends only on seed, index and options, not on previous calls or the machine. No two
// objects share mutable memory.
//
// # Concurrency
//
// All functions are safe for concurrent use, but [Touch] modifies its argument.
//
// # Failure
//
// Every seed and every index from 0 is valid. For types that this package does not generate, [Touch] and
// [Next] change only the metadata.
//
// # Debugging
//
// The tests document and check sizes, repetition, and a digest of the first objects, so that changes to
// the benchmark data do not go unnoticed.
package objects
