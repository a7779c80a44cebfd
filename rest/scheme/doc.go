// Package scheme knows the Go type of every kind that k8s.io/api defines.
//
// # Usage
//
//	s := scheme.New()
//	err := examplev1.AddToScheme(s) // your own kinds beside the built-in ones
//	client, err := rest.NewClient(cfg, s)
//
// # Guarantees
//
// Every group and version is registered that k8s.io/api has in each of the releases that
// Millrace can be built with, the last three minor versions; a test compares the scheme
// with the module's directories. What only some of them have is added like kinds of your
// own:
//
//	err := lifecyclev1alpha1.AddToScheme(s) // k8s.io/api/lifecycle/v1alpha1, from v0.37 on
//
// # Concurrency
//
// A runtime.Scheme may be read by many goroutines, and must not be changed
// while it is read: register everything before a client gets it. New shares
// nothing between the schemes that it returns, so one part of a program cannot
// add kinds behind the back of another. Building one costs about a millisecond
// and half a megabyte: call it once per program or test, not once per request.
//
// # Failure
//
// New cannot fail with the release of k8s.io/api that it was compiled with.
//
// # Debugging
//
// runtime.Scheme.AllKnownTypes lists what is registered.
package scheme
