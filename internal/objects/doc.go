// Package objects makes API objects for measurements: of the size and shape of objects
// in real clusters, as many as you want, and the same ones from the same seed.
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
// # What repeats, and what does not
//
// A decoder that shares equal parts between objects lives on repetition, so what
// repeats here decides what is measured. Objects are replicas of 200 applications in 50
// namespaces on 1000 nodes. They have in common what the controllers and the API server
// of a real cluster give to replicas:
//
//   - labels, the owner, and which fields the controller manages;
//   - of each container the image, command, environment, ports, resources and
//     probes, but not the container as a whole: it mounts the service account's
//     volume, whose name is drawn for each pod at admission;
//   - tolerations, and what the service account's volume consists of.
//
// Name, uid, resource version, times, node, IPs and container IDs are each
// object's own. So is the kubelet's entry in managedFields, since it has the
// pod's IP in it. Neighbours are of different applications; a real list, which
// is in the order of names, has the replicas side by side and is easier.
//
// With [Options.Hostile], nothing repeats but the words of the API itself
// (field names, phases, types of conditions, policies) and pieces of a few
// bytes made of them.
//
// # Guarantees
//
// An object depends on seed, index and options alone, not on what was made
// before, nor on the machine. No two objects share memory that can be changed.
//
// # Concurrency
//
// All functions may be called concurrently; Touch alters its argument.
//
// # Failure
//
// There is none: every seed and every index from 0 has an object.
// [Touch] and [Next] change nothing but the metadata of types that are not made
// here.
//
// # Debugging
//
// The tests state and check sizes, how much repeats, and a digest of the first
// objects, so that a change of what is measured does not go unnoticed.
package objects
