// Package factory gives a program one informer per type and scope, no matter how many parts of the
// program request it. It starts all informers together, waits for their sync and stops them.
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
// released it (L25). Unless Options.NoSharing is set, all informers share equal parts of cached objects
// (W03). WaitForSync names each informer that is not synced, with its state and latest failure (L22).
//
// # Concurrency
//
// All functions and methods may be called from any goroutine. The factory owns the goroutines that
// run informers; Wait returns when all have ended.
//
// # Failure
//
// Requesting an informer cannot fail. The informer's status and WaitForSync report a type that is
// missing from the scheme, a kind that is not served, and contradictory options.
//
// # Debugging
//
// Status lists every informer; package metrics exports it.
package factory
