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
// The scheme has every group and version that exists in all supported releases of k8s.io/api, which are the
// last three minor versions. A test compares it with the module's directories. If a version exists only in
// some of these releases, you can add it like your own kinds:
//
//	err := lifecyclev1alpha1.AddToScheme(s) // k8s.io/api/lifecycle/v1alpha1, from v0.37 on
//
// # Concurrency
//
// A runtime.Scheme is safe for concurrent reads, but must not be modified at the same time, so register all
// kinds before you create a client. Schemes returned by New are independent, so one component of a program
// cannot add kinds to another's scheme. A scheme takes about a millisecond to build and half a megabyte of
// memory, so call New once per program or test, not per request.
//
// # Failure
//
// New cannot fail with the release of k8s.io/api that it was built with.
//
// # Debugging
//
// runtime.Scheme.AllKnownTypes lists the registered kinds.
package scheme
