// Package controller runs reconcilers: events from sources become requests, a queue merges and orders
// them, and workers call the Reconciler for each.
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
// If the program has a manager, manager.ControllerFor takes fewer lines.
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
// The queue guarantees one reconcile of a request at a time (L26), a reconcile after every change
// (L27), and no starvation, however many urgent requests there are (L30). The informers guarantee that
// the cache is ahead of every event (L05). This package adds:
//
//   - No reconcile starts until all sources present at Run have synced, except Optional sources
//     whose kind is not served. If, after ten seconds, only namespaces whose lists fail are
//     missing, the controller starts without them: a request waits until every source has its
//     namespace, and a request without a namespace waits until every source has all of them. The
//     controller does not wait for kinds that it reads but does not watch; see Client.
//   - A reconcile never sees a state older than the state that the previous reconcile wrote through
//     a Client, unless the cache lags by more than Options.Patience. Such reconciles are counted.
//   - Requests from an initial list are handled after live changes.
//   - A failing map function is called again, per object, with back-off.
//   - Objects that the cache holds only in part or in transformed form are never written back.
//   - Run returns when everything that it started has ended (L23).
//
// # Concurrency
//
// All methods may be called from any goroutine. A controller runs its workers, two goroutines for each
// source, a third for each source with a map function, and one for each cache that parked requests wait
// for. Handlers run in goroutines of their informers.
//
// Lock order: Controller.mu comes first. The locks of the queue, of causes, of the own-writes barrier,
// of held namespaces, of a mapping and of an attempt are taken only while no lock other than
// Controller.mu or a mapping's is held. There is one exception: the barrier and the held namespaces take
// the locks of queues, causes and caches under their own. The lock of the source list is a leaf.
//
// No lock is held while a reconciler or a predicate runs. A map function runs under the lock of its
// mapping, which serializes its calls.
//
// # Failure
//
// A reconciler's error is logged, counted and kept in Status.Failure, and the request is retried with
// back-off unless the error is Terminal. A panic counts as an error. If the API server's error says when
// to retry (source.RetryAfter), the retry waits that long; a change still triggers a reconcile at once.
// Sources fail independently of each other. SourceStatus reports the last error and the failure count of
// each source.
//
// # Debugging
//
// Ready names the sources that a controller is waiting for and why; Status reports everything else. A
// reconcile that has not returned after SlowReconcile is logged, and Unfinished lists all such
// reconciles. Inside a reconcile, Causes returns why it runs, and Logger tags every line with its
// identity.
package controller
