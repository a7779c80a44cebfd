// Package factory gives a program one informer per type and scope, however
// many of its parts ask for it, and starts, awaits and stops them together.
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
// One informer for one type and scope, started once, stopped when its last
// user has released it (L25). Equal parts of cached objects are shared between
// all informers unless Options.NoSharing is set (W03). WaitForSync names each
// informer that is not synced, with its state and last failure (L22).
//
// # Concurrency
//
// Everything may be called from any goroutine. The factory owns the goroutines
// in which informers run; Wait returns when all have ended.
//
// # Failure
//
// Asking for an informer cannot fail: a type that is not in the scheme, a kind
// that is not served, contradicting options all show in the informer's status
// and in WaitForSync.
//
// # Debugging
//
// Status lists every informer; package metrics exports it.
package factory
