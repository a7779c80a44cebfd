// Package sharedinformer turns the deltas of one resource into a cache that
// can be read and into calls of handlers.
//
// # Usage
//
//	pods := sharedinformer.New[*corev1.Pod](source, sharedinformer.Options{})
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
// The log is a linked list. Each handler walks it at its own pace, in a goroutine of
// its own; what every handler has passed is garbage. A handler whose lag policy is
// Coalesce does not hold the log: what it has not heard yet is merged into one entry
// per object.
//
// # Namespaces
//
// Options.Namespaces narrows an informer to some namespaces. Each has a reflector that
// resumes, backs off, lists again and fails by itself (L17, L19, L22). They fill one
// queue, so there is one cache and one timeline. What is promised of all holds for the
// least of them: the informer is synced when every namespace is (L18), and the cache's
// RV is the smallest of theirs (L13). A list replaces one namespace at once (L12); two
// namespaces may be of different moments, as two events are. SetNamespaces changes the
// set while the informer runs.
//
// # Shares
//
// With Options.Shard an informer has the objects in some slots only, which come and go while
// it runs. What moves to or from another process is told with Event.Moved (S03). Of a slot
// that has come nothing is told before a list that began then is applied (S04), and of other
// slots nothing at all (S05).
//
// # Packed caches
//
// With Options.Store Packed the cache holds bytes: of each object its head (key, UID,
// resource version, labels, owners) and the rest compressed against a sibling, which is a
// small part of what the object takes. Who gets an object, iterates, or is told of one, has
// it made of its bytes, one at a time. As long as anybody holds it, all get the same one.
// The 64 that were opened last stay as they are though nobody holds them, but for those of
// more than 64 KB: what several handlers are told of, or is looked up again and again, is
// made once. That is some hundred KB.
//
// What needs no more than heads opens nothing: Heads reads the cache that way, and a handler
// added with AddHeadHandler is told of heads; Open makes an object of one, and Copy one of the
// caller's own, which shares nothing and may be changed. Select, Namespace
// and an index open what they yield and nothing else. Of an update the old object is opened
// for a handler that may look at it: HandlerOptions.WithoutOld says that it does not, and
// HandlerFuncs say it by the functions that are nil. An annotation is at hand if it is one of
// Options.Annotations. Nothing else differs (C01).
//
// An object whose bytes were damaged in memory is not served: Status.Failure has its key and
// the cause, and a list follows that brings it back. Handlers hear an Update then, or the Add
// that they could not be told.
//
// It suits kinds of which there are many and of which few are looked at at a time. It does
// not suit a program that walks all objects all the time: to make one of its bytes takes
// as long as to decode it.
//
// # Snapshots
//
// With Options.Snapshot the informer writes what it has into a file and, in a later
// process, begins with it. What was read is no part of the cache: the reflector holds it
// until the server has confirmed or corrected it, and then queues it as it does a list.
// So nothing that is promised below depends on the file (C02).
//
// # Guarantees
//
// Delivery: one timeline per handler (L01, L02), every Add paired with one
// Delete (L03, L04), the cache ahead of every call (L05), no gap and no repeat
// for a handler that joins late (L06), no call after a close (L07), no handler
// in another's way (L08-L11). Cache: L12 to L16. Waiting: L14, L18, L22. Life:
// L23, L24. Packed: C01. Snapshots: C02. Shares: S03 to S05.
//
// # Concurrency
//
// All methods may be called from any goroutine, handlers included. Locks, in
// the order in which they may be taken: core.join, that of the indexer, core.mu,
// and then those of the queue, of a coalescer and of the mutation
// detector. None of these last is taken under another. A delivery's own lock is taken
// under none of these; under it, only its coalescer's is. No lock is held while a
// handler or a hook runs. Index functions run under core.join and the indexer's
// lock and must be pure. Nobody waits for one under core.mu, so that whoever needs no
// more than that is not kept by one that blocks: Status, the waits, and whoever closes a
// registration. Whoever adds a handler or an index, changes the namespaces, or reads what is
// being changed, waits for it.
//
// # Failure
//
// Everything that fails is a *failure.Failure: it is in Status, goes to
// Options.OnError, and is logged.
//
// # Debugging
//
// Status tells how the reflector, the queue, the cache and each handler are
// doing. WaitForSync says what it was waiting for. Options.DetectMutations finds
// code that changes cached objects, and names the handler if it happened in a call;
// objects that come later share nothing with the changed ones. Goroutines of handlers
// carry the pprof labels "informer" and "handler". What happened last, to the informer, to
// one object and in each handler, is in the flight recorder (Options.Flight).
package sharedinformer
