// Package controller runs reconcilers: sources turn events into requests, a queue merges and orders the
// requests, and workers call the Reconciler for each one.
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
// If the program has a manager, manager.ControllerFor is shorter.
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
// The queue guarantees that reconciles of the same request never overlap (L26), that every change is
// followed by a reconcile (L27), and that no request starves, however many urgent ones there are (L30).
// The informers guarantee that the cache is never behind the event being handled (L05). This package
// adds:
//
//   - No reconcile starts until all sources present at Run have synced, except Optional sources whose
//     kind is not served. If, after ten seconds, only namespaces whose lists fail are still missing, the
//     controller starts without them: a request then waits until every source has listed its namespace, and
//     a request without a namespace waits until every source has listed all namespaces. A request in a namespace
//     that is added while the controller runs waits in the same way. The controller does not wait for kinds
//     that it reads but does not watch; see Client.
//   - A reconcile never sees state that predates the previous reconcile's writes through a Client, unless
//     the cache lags by more than Options.Patience. Such stale reconciles are counted.
//   - Requests from an initial list are handled after live changes.
//   - If a map function fails for an object, it is retried for that object with back-off.
//   - Objects that are partial or transformed in the cache are never written back.
//   - Run returns once everything it started has finished (L23).
//
// # Concurrency
//
// All methods are safe for concurrent use. A controller runs one goroutine per worker, two per source
// (three if the source has a map function), one for each cache that parked requests are waiting for,
// and one while requests in missing namespaces are held. Handlers run in their informers' goroutines.
//
// Lock order: Controller.mu comes first. The queue, cause, barrier, namespace, mapping and attempt locks
// are acquired only while holding no lock other than Controller.mu or a mapping's. The exceptions are the
// own-writes barrier and the held namespaces, which acquire queue, cause and cache locks while holding
// their own. The source list's lock is a leaf.
//
// No lock is held while a reconciler or predicate runs. A map function runs while its mapping's lock is
// held, which serializes the calls.
//
// # Failure
//
// A reconciler's error is logged, counted and kept in Status.Failure, and the request is retried with
// back-off unless the error is Terminal. A panic is treated as an error. If the error from the API server
// includes a retry delay (source.RetryAfter), the retry waits that long; a change still triggers a
// reconcile at once. Sources fail independently of each other. SourceStatus reports each source's last
// error and failure count.
//
// # Debugging
//
// Ready reports which sources a controller is waiting for, and why; Status reports everything else. A
// reconcile that runs longer than SlowReconcile is logged, and Unfinished lists all such reconciles. Inside
// a reconcile, Causes returns the reasons for it, and Logger tags every line with its ID.
package controller
