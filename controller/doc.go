// Package controller makes a running controller of a reconcile function: events
// in, requests queued, reconcilers called.
//
// # Usage
//
//	memcacheds := controller.ClientFor[*cachev1.Memcached](f) // f is a *factory.Factory
//	deployments := controller.ClientFor[*appsv1.Deployment](f)
//
//	c, err := controller.New("memcached", controller.Func(func(ctx context.Context, req controller.Request) (controller.Result, error) {
//		m, ok := memcacheds.Get(req.Key) // shared, not to be changed
//		if !ok {
//			return controller.Result{}, nil
//		}
//		...
//		_, err := deployments.Create(ctx, deployment)
//		return controller.Result{}, err
//	}), controller.Options{Concurrency: 4})
//
//	c.Watch(controller.For(memcacheds))
//	c.Watch(controller.Owns(deployments, memcacheds))
//	err = c.Run(ctx)
//
// In a program with a manager, manager.ControllerFor does this in fewer lines.
//
// # The flow
//
//	informer → predicates → map ─┐
//	channel ─────────────────────┼─► queue ─► worker ─► parked? ─► Reconcile ─► Client writes
//	function ────────────────────┘     ▲                  │            │            │
//	                                   │                  ▼            │            ▼
//	                                   ├──── cache has caught up ◄─────┼──── what was written
//	                                   └──── error, Requeue(After) ◄───┘
//
// # Guarantees
//
// The queue's: one reconcile of a request at a time (L26), no change without a
// reconcile after it (L27), no starvation however many more urgent requests there
// are (L30). The informers': the cache is ahead of every event (L05). And those
// of this package:
//
//   - No reconcile starts until all sources present at Run have synced, except Optional
//     sources whose kind is not served. If, after ten seconds, only namespaces are missing
//     whose lists fail, the controller begins in the others: a request waits until every
//     source has its namespace, and one without a namespace until they have all. A kind that is
//     only read, and is no source, is not waited for; see Client.
//   - A reconcile does not see a state older than what the reconcile before it
//     wrote through a Client, unless the cache lags behind by more than
//     Options.Patience, which is counted.
//   - What an initial list asks for goes behind live changes.
//   - A map function that fails is called again, by object, with a back-off.
//   - What a cache has of an object in part, or changed by a transform, is not
//     written back.
//   - Run returns when everything that it started has ended (L23).
//
// # Concurrency
//
// Everything may be called from any goroutine. A controller owns its workers, two
// goroutines for each source, one more for a source with a map function, and one
// for each cache that requests are parked for. Handlers run in goroutines of their informers.
//
// Controller.mu is taken before any other lock. The locks of a queue, of causes, of the
// barrier of own writes, of held namespaces, of a mapping and of an attempt are taken under
// none but it and that of a mapping, except that those of queues, causes and caches are
// taken under those of the barrier and of held namespaces. Under the lock of the list of
// sources no other is taken.
//
// No lock is held while a reconciler or a predicate runs; a map function runs under the lock
// of its mapping, which orders its calls.
//
// # Failure
//
// An error of a reconciler is logged, counted, kept in Status.Failure and followed
// by another try with a back-off, unless it is Terminal. A panic is such an error. Where
// an error of the API server says when to come back (source.RetryAfter), nothing is tried
// again before; a change asks for a reconcile at once all the same.
// Sources fail by themselves: SourceStatus tells which, with what, how often.
//
// # Debugging
//
// Ready says for which source a controller waits and why; Status tells the rest. The log names a
// reconcile that has not returned after SlowReconcile, and Unfinished all of them.
// In a reconcile Causes tells why it happens, and Logger marks what is logged.
package controller
