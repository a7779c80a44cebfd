// Package sharedinformer turns the deltas of one resource into a cache that
// can be read and into calls of handlers.
//
// # Usage
//
//	pods := sharedinformer.New(source, sharedinformer.Options{})
//	byNode := sharedinformer.AddIndex(pods, "node", func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
//	pods.AddHandler(sharedinformer.HandlerFuncs[*corev1.Pod]{Add: ...})
//	go pods.Run(ctx)
//	err := pods.WaitForSync(ctx)
//
// # The flow
//
//	reflector → DeltaFIFO → Pop → HandleDeltas ─┬─► Indexer        (one write a batch)
//	                                            └─► log of batches (one append a batch)
//	                                                 ▲   ▲    ▲
//	                                                 │   │    └─ cursor of handler C
//	                                                 │   └────── cursor of handler B
//	                                                 └────────── cursor of handler A
//
// The log is a linked list. Each handler walks it in a goroutine of its own at
// its own pace; what every handler has passed is garbage, the last batch too. A handler whose lag
// policy is Coalesce does not hold on to the log: what it has not heard yet is
// merged into one entry per object.
//
// # Namespaces
//
// An informer with Options.Namespaces has a reflector for each of them. They fill
// one queue, so that there is one cache and one timeline, and each resumes, backs
// off, lists again and fails for itself (L17, L19, L22). What is promised of all
// holds for the one that knows least: synced means every namespace (L18), the
// cache's RV is the least of theirs (L13). A list replaces one namespace at once
// (L12); two of different namespaces may be of different moments, as two events
// are. SetNamespaces changes the set while the informer runs.
//
// # Guarantees
//
// Delivery: one timeline per handler (L01, L02), every Add paired with one
// Delete (L03, L04), the cache ahead of every call (L05), no gap and no repeat
// for a handler that joins late (L06), no call after a close (L07), no handler
// in another's way (L08-L11). Cache: L12 to L16. Waiting: L14, L18, L22. Life:
// L23, L24.
//
// # Concurrency
//
// All methods may be called from any goroutine, handlers included. Locks, in
// the order in which they may be taken: Informer.mu, Informer.join, that of the
// indexer, and then those of the queue, of a coalescer and of the mutation
// detector, of which none is taken under another. A registration's own lock is
// taken under none of these, and under it that of its coalescer alone. No lock is
// held while a handler, OnError or OnState runs; index functions run under
// Informer.join and the indexer's lock and must be pure.
//
// # Failure
//
// Everything that fails is a *failure.Failure: it is in Status, goes to
// Options.OnError, and is logged.
//
// # Debugging
//
// Status tells how the reflector, the queue, the cache and each handler are
// doing. WaitForSync says what it was waiting for. Options.DetectMutations
// finds who changes cached objects, and names the handler that did it in a call;
// what objects shared then goes to no later one.
// Goroutines of handlers carry pprof labels
// "informer" and "handler".
package sharedinformer
