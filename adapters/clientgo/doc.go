// Package clientgo provides Millrace informers behind client-go's interfaces, so that a program written for
// client-go can switch by changing one line.
//
// # Usage
//
//	// informers.NewSharedInformerFactory(client, resync) becomes
//	f, err := clientgo.NewSharedInformerFactoryForConfig(config, resync) // decodes from the bytes, shares equal parts
//	f := clientgo.NewSharedInformerFactory(client, resync)               // over any clientset, fake ones too
//
//	// cache.NewSharedIndexInformer(lw, example, resync, indexers) becomes
//	i := clientgo.NewInformer(lw, example, resync, indexers)
//
// # Guarantees
//
// The informers honor everything that client-go promises for a SharedInformer, as well as Millrace's laws
// L01 to L23. If the two differ, the stricter one applies. README.md lists the differences.
//
// # Concurrency
//
// All functions and methods are safe for concurrent use. Each handler runs in its own goroutine, one call
// at a time, with no locks held.
//
// # Packed caches
//
// With WithStore or ResourceOptions.Store, a cache can store objects as packed bytes. The store's
// List and ByIndex then decode every object they return. The Heads returned by HeadsOf decode an object
// only on request, and can make copies that the caller owns.
//
// # Failure
//
// If the bytes of a packed object become corrupted in memory, the informer refetches the object. Until then, Get,
// GetByKey, Index and ByIndex fail instead of returning the object. List cannot fail, so it omits the object, also
// in listers.
//
// Failures to list or watch are passed to the watch error handler, and all others to
// utilruntime.ErrorHandlers. An informer's WaitForSync and a factory's WaitForCacheSyncWithContext report
// why an informer has not synced.
//
// # Debugging
//
// Status reports the state of an informer, or of all informers in a factory; an Observer does so for
// client-go's own informers. A factory and an Observer implement metrics.InformerSource. Pass them to
// manager.Manager.AddInformers to include them in /metrics, /readyz and /debug/status.
package clientgo
