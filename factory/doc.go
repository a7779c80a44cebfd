// Package factory creates one informer per type and scope, shared by all components of a program that
// request it. It starts all informers together, waits for them to sync, and stops them.
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
// There is one informer for each type and scope. It is started once, and stopped when its last user
// releases it (L25). Unless Options.NoSharing is set, informers share identical parts of cached objects
// (W03). If informers are not synced, WaitForSync reports the state and latest failure of each (L22).
//
// # Concurrency
//
// All functions and methods are safe for concurrent use. The factory owns the goroutines that run
// informers; Wait returns once all have exited.
//
// # Failure
//
// Requesting an informer cannot fail. Problems such as a type missing from the scheme, a kind that is not
// served, or conflicting options are reported in the informer's status and by WaitForSync.
//
// # Debugging
//
// Status lists every informer; package metrics exports it.
package factory
