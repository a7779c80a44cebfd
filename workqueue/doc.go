// Package workqueue implements the queue between a controller's event handlers and its workers: an ordered
// set of keys, each handed to one worker at a time.
//
// # Usage
//
//	q := workqueue.New(workqueue.Options[types.NamespacedName]{Name: "pods"})
//
//	q.Add(key)                     // from an event handler
//
//	for key := range q.Work(ctx) { // in each worker; calls Done itself
//		if err := reconcile(ctx, key); err != nil {
//			q.AddRateLimited(key)
//			continue
//		}
//		q.Forget(key)
//	}
//
//	q.Drain(ctx)                   // or q.ShutDown()
//
// Queue is the only queue type: Add, AddAfter, AddRateLimited and AddWith add keys; Get and Done, or Work,
// take them out; Cancel and Reschedule change a delayed add. Parallelize runs the pieces of a job in
// parallel.
//
// # Guarantees
//
//   - L26: two workers never hold the same key. A key added while a worker holds it is handed out
//     again afterwards.
//   - L27: each add is followed by a Get of its key; adds of a waiting key are merged. The only
//     exceptions are at the caller's request: Cancel, ForgetAndCancel, and the adds dropped by
//     ShutDown and Drain. Status counts each of them.
//   - L28: Drain returns when all queued and running work is done; ShutDown returns immediately.
//     Afterwards, none of the queue's goroutines or timers are left.
//   - L29: the soonest requested time wins. The earlier of two delayed adds wins, and an immediate
//     add wins over a delayed one, in any order. A key is never handed out before its delay is
//     over, unless another add requested it sooner.
//   - L30: every FairEvery-th Get takes the key that has waited longest. So a key with n older
//     keys ahead of it is handed out within FairEvery*(n+1) Gets, regardless of priorities, Order
//     and later adds.
//
// A delayed add of a waiting key merges with the pending add, so the key is handed out once, and soon. A
// worker that must not act on a key before a certain time has to check the clock and add the key again.
//
// # Concurrency
//
// All methods are safe for concurrent use. A queue has one mutex, and calls no outside code except the Order
// while holding it. Add, Get and Done each hold it for some 10 to 50 ns. A goroutine that finds it locked spins
// for up to 64 µs, with growing pauses, before it sleeps. The queue starts a goroutine only to call an Order,
// a RateLimiter or Metrics supplied by the user, or to register Metrics, and waits for it; each such call
// costs a microsecond or two. All delayed adds share one timer. Each key wakes one of the workers waiting in Get.
//
// # Failure
//
// Get returns ErrShutDown or the cause of its context. If its context is done, Drain returns an error that
// reports the remaining work. Done panics if the key is not running, just as unlocking an unlocked mutex
// does.
//
// # Debugging
//
// Status returns the state, depths and counters; Contents lists the running, waiting and delayed keys. With
// Options.Timestamps or metrics, both include times. A growing LongestRunning indicates a stuck worker; a
// growing OldestWaiting while Sleeping is zero indicates too few workers.
package workqueue
