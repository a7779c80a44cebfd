// Package controllerruntime provides Millrace's cache and work queue behind controller-runtime's interfaces,
// so that an operator written for controller-runtime can switch by changing one line.
//
// # Usage
//
//	options.NewCache = millrace.NewCache // ctrl.Options, before ctrl.NewManager
//	controller.Options{NewQueue: millrace.NewQueue[ctrl.Request]}
//
// For replicas that share the work, use [Group], [Options].Shards and [Sharded] instead.
//
// # Guarantees
//
// The package honors everything that controller-runtime promises for a cache.Cache and a
// priorityqueue.PriorityQueue. Millrace's laws L01 to L23 also hold for the informers, and L26 to L30 for the
// queue. README.md lists the differences, and explains to what extent S01 to S05 hold when replicas share the
// work.
//
// Objects are cached packed, unless Options.Store or UnsafeDisableDeepCopy says otherwise. Objects
// cached whole share equal values across all kinds (W03), unless they have been transformed. Get and
// List return copies, unless the options say otherwise. As in controller-runtime, handlers, predicates
// and map functions receive cached objects and must not modify them.
//
// # Concurrency
//
// All functions and methods are safe for concurrent use. No lock is held while waiting or while a user's
// function runs.
//
// # Failure
//
// If a kind is not served, calls return the RESTMapper's error, such as a *meta.NoKindMatchError, and
// may be retried. If an informer cannot sync, WaitForSync returns an error with the state and the last
// failure of each informer. WaitForCacheSync logs them, and a read that waited includes them in its
// error. A panic in a handler, a predicate or a map function crashes the process unless
// utilruntime.ReallyCrash is false; controller-runtime treats a panic in a reconciler as a failure.
//
// # Debugging
//
// A manager's cache is a *Cache: its Status reports the state of each informer and makes it a
// metrics.InformerSource. A queue is a *Queue with Status and Contents; its metrics are in
// controller-runtime's registry.
package controllerruntime
