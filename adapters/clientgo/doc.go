// Package clientgo puts Millrace informers behind client-go's interfaces, so
// that a program written for client-go changes one line.
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
// What client-go says of a SharedInformer holds, and so do Millrace's laws L01
// to L23; where the two differ the stricter one is kept. README.md lists the
// differences.
//
// # Concurrency
//
// Everything may be called from any goroutine. A handler is called by a
// goroutine of its own, one call at a time, while no lock is held.
//
// # Packed caches
//
// WithStore and ResourceOptions.Store let a cache hold bytes; a store's List and ByIndex make
// an object of each. HeadsOf opens nothing, and makes copies that are the caller's.
//
// # Failure
//
// An object whose bytes were damaged in memory is an error of the reads that can return one,
// until the server's copy is there.
//
// What fails in listing and watching goes to the handler of watch errors;
// everything else goes to utilruntime.ErrorHandlers. WaitForSync of an informer and
// WaitForCacheSyncWithContext of a factory say why an informer has not synced.
//
// # Debugging
//
// Status, and Status of a factory, tell how an informer is doing; an Observer does so
// of client-go's own. A factory and an Observer are a metrics.InformerSource, which
// manager.Manager.AddInformers shows in /metrics, /readyz and /debug/status.
package clientgo
