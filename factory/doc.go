// Package factory provides a program with one informer per type and scope, no matter how many components
// request it. It starts all informers together, waits for them to sync and stops them.
//
// # Usage
//
//	f := factory.New(client, factory.Options{})
//	pods := factory.Informer[*corev1.Pod](f)
//	shop := factory.InformerWith(f, factory.For[*corev1.Service]{Scope: factory.Scope{Namespaces: []string{"shop"}}})
//	f.Start(ctx)
//	err := f.WaitForSync(ctx)
//
// # Guarantees
//
// There is one informer for each type and scope. It is started once, and stopped when its last user has
// released it (L25). Unless Options.NoSharing is set, informers share identical parts of cached objects
// (W03). WaitForSync reports each informer that is not synced, with its state and latest failure (L22).
//
// # Concurrency
//
// All functions and methods are safe for concurrent use. The factory owns the goroutines that run
// informers; Wait returns once all have exited.
//
// # Failure
//
// Requesting an informer cannot fail. The informer's status and WaitForSync report a type that is
// missing from the scheme, a kind that is not served, and conflicting options.
//
// # Debugging
//
// Status lists every informer; package metrics exports it.
package factory
