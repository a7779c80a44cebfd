// Package scheme provides a runtime.Scheme with the Go types of all kinds in k8s.io/api.
//
// # Usage
//
//	s := scheme.New()
//	err := examplev1.AddToScheme(s) // add your own kinds
//	client, err := rest.NewClient(cfg, s)
//
// # Guarantees
//
// The scheme has every group and version that exists in all releases of k8s.io/api that Millrace can be built
// with, which are the last three minor versions. A test compares it with the module's directories. Versions
// that only some of the releases have can be added like your own kinds:
//
//	err := lifecyclev1alpha1.AddToScheme(s) // k8s.io/api/lifecycle/v1alpha1, from v0.37 on
//
// # Concurrency
//
// A runtime.Scheme is safe for concurrent reads, but must not be modified at the same time, so
// register all kinds before you create a client. Schemes returned by New are independent, so one component of
// a program cannot add kinds to another's scheme. Building a scheme takes about a millisecond and half a
// megabyte, so call New once per program or test, not per request.
//
// # Failure
//
// New cannot fail with the release of k8s.io/api that it was built with.
//
// # Debugging
//
// runtime.Scheme.AllKnownTypes lists the registered kinds.
package scheme
