// Package sharedinformer applies deltas for one resource to a cache and calls handlers for each change.
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
//	reflector → DeltaFIFO → Pop → HandleDeltas ─┬─► Indexer        (one write per batch)
//	                                            └─► log of batches (one append per batch)
//	                                                 ▲   ▲    ▲
//	                                                 │   │    └─ cursor of handler C
//	                                                 │   └────── cursor of handler B
//	                                                 └────────── cursor of handler A
//
// The log is a linked list. Each handler walks it at its own pace in its own goroutine; entries that every
// handler has passed become garbage. A handler whose lag policy is Coalesce does not retain the log: its
// undelivered changes are merged into one entry per object.
//
// # Namespaces
//
// Options.Namespaces limits an informer to a set of namespaces. Each namespace has its own reflector, which
// resumes, backs off, relists and fails independently (L17, L19, L22). All reflectors fill one queue, so
// there is one cache and one timeline. The informer is synced when every namespace is (L18), and the cache's
// RV is the smallest of their RVs (L13). A list replaces one namespace atomically (L12); different namespaces
// may reflect different points in time. SetNamespaces changes the set while the informer runs.
//
// # Shares
//
// With Options.Shard an informer caches only the objects in its slots, and it may gain and lose slots while
// it runs. Event.Moved marks objects that moved to or from another process (S03). The informer holds a new
// slot once a list that was started after the gain has been applied (S04). Before that, handlers may receive
// changes to objects in the slot that a watch happens to deliver. They receive nothing from slots that the
// informer does not own (S05).
//
// # Packed caches
//
// With Options.Store Packed the cache holds each object as its head (key, UID, resource version, labels,
// owners) plus bytes compressed against a similar object, which take up a fraction of the object's memory.
// Get, iteration and handlers decode objects on demand, one at a time. Readers share an opened object for as
// long as it is in use. The 64 most recently opened objects of up to 64 KB stay open, so an object that
// several handlers receive, or that is looked up repeatedly, is decoded once. Together the open objects use a
// few hundred KB.
//
// Code that needs only heads never opens an object: Heads returns a reader for the cached heads, and
// AddHeadHandler registers a handler that receives heads. Open decodes the object behind a head, and Copy
// returns a private copy that may be modified. Select, Namespace and index lookups open only the objects they
// yield. The old object of an update is opened only for handlers that may read it: set
// HandlerOptions.WithoutOld for a handler that does not, or leave the corresponding HandlerFuncs nil. An
// annotation is available without opening the object if it is listed in Options.Annotations. Otherwise a
// packed cache behaves like an unpacked one (C01).
//
// An object whose bytes were corrupted in memory is not served. Status.Failure reports its key and the cause,
// and a relist restores it. Handlers then receive an Update, or the Add that could not be delivered.
//
// Use a packed cache for kinds with many objects, only a few of which are read at a time. Packed caches do
// not suit programs that constantly iterate over all objects, because opening an object means decoding it.
//
// # Snapshots
//
// With Options.Snapshot the informer writes its cache to a file, and a later process starts from it. Loaded
// objects are not in the cache yet: the reflector keeps them until the server confirms or corrects them, and
// then queues them like a list. The guarantees below therefore do not depend on the file (C02).
//
// # Guarantees
//
// Each handler sees one timeline (L01, L02), in which every Add is paired with one Delete (L03, L04). The
// cache is updated before each call (L05). Handlers that join late miss nothing and receive nothing twice
// (L06), and closed ones are not called (L07). Handlers do not affect each other (L08-L11). For the cache,
// see L12 to L16; for waiting, L14, L18 and L22; for starting and stopping, L23 and L24; for packed caches,
// C01; for snapshots, C02; and for shares, S03 to S05.
//
// # Concurrency
//
// All methods are safe for concurrent use and may be called from handlers. Locks must be acquired in this
// order: core.join, the indexer's lock, core.mu, and then the lock of the queue, a coalescer or the mutation
// detector. A delivery's own lock is never acquired while holding any of these; while it is held, only its
// coalescer's lock may be acquired. No lock is held while a handler or a hook runs. Index functions run under
// core.join and the indexer's lock and must be pure. No code waits for an index function while holding
// core.mu, so Status, the Wait methods and Registration.Close work while one blocks. However, adding a
// handler or an index, changing the namespaces, and reading entries that are being changed must wait for it.
//
// # Failure
//
// Every failure is a *failure.Failure: it appears in Status, is passed to Options.OnError, and is
// logged.
//
// # Debugging
//
// Status reports how the reflector, the queue, the cache and each handler are doing. The error from
// WaitForSync reports what it was waiting for. Options.DetectMutations catches code that modifies cached
// objects, and identifies the handler if the change happened during a handler call. Each modified object is
// reported once, as a *MutationError. Objects that arrive later share no memory with it if the source has a
// Pool (source.Description). Handler goroutines carry the pprof labels "informer" and "handler". The flight
// recorder (Options.Flight) keeps the latest events for the informer, each object and each handler.
package sharedinformer
