// Package controllerruntime puts Millrace's cache and work queue behind
// controller-runtime's interfaces, so that an operator written for
// controller-runtime changes one line.
//
// # Usage
//
//	options.NewCache = millrace.NewCache // ctrl.Options, before ctrl.NewManager
//	controller.Options{NewQueue: millrace.NewQueue[ctrl.Request]}
//
// Or, for replicas that share the work, a Group, Options.Shards and Sharded.
//
// # Guarantees
//
// What controller-runtime says of a cache.Cache and of a
// priorityqueue.PriorityQueue holds; of the informers within, Millrace's laws L01
// to L23 too, and of the queue L26 to L30. README.md lists the differences, and how far S01
// to S05 go where work is shared.
//
// Objects are cached packed, unless Options.Store or UnsafeDisableDeepCopy says otherwise.
// Equal parts of whole ones are in memory once, for all kinds (W03), but for
// those with a transform. What Get and List return is a copy, unless the options
// say otherwise; what handlers, predicates and map functions are given is not,
// as in stock controller-runtime, and must not be changed.
//
// # Concurrency
//
// Everything may be called from any goroutine. No lock is held while anything is
// waited for, nor while a function of the user's is called.
//
// # Failure
//
// A kind that is not served is the RESTMapper's error, such as a
// *meta.NoKindMatchError, and may be asked for again. A caller that waits for an
// informer that cannot sync is told why: WaitForSync returns the state and the
// last failure of each, WaitForCacheSync logs them, and the error of a read that
// waited has them in its text. A handler, a predicate or a map function that
// panics ends the process unless utilruntime.ReallyCrash is false; of a reconciler
// that panics, controller-runtime makes a failed one.
//
// # Debugging
//
// The cache of a manager is a *Cache: its Status tells how each informer is
// doing, and makes it a metrics.InformerSource. A queue is a *Queue with Status
// and Contents; its figures are in controller-runtime's registry.
package controllerruntime
