// Package workqueue is the queue of work between the event handlers of a
// controller and its workers: a set of keys in order, each handed to one worker
// at a time.
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
// One type does it all: Add, AddAfter, AddRateLimited and AddWith put keys in;
// Get and Done, or Work, take them out; Cancel and Reschedule change a delayed
// add. Parallelize runs pieces of one job side by side.
//
// # Guarantees
//
//   - L26: a key is never in the hands of two workers. If it is added while a
//     worker has it, it is handed out again afterwards.
//   - L27: each add is followed by a Get of its key; adds of a key that waits
//     merge. The exceptions are those asked for: Cancel, ForgetAndCancel, and
//     the adds that ShutDown and Drain say they drop. Each is counted in Status.
//   - L28: Drain returns when the queued and the running work is done, ShutDown
//     returns at once. After either, no goroutine or timer of the queue is left.
//   - L29: the soonest time asked for wins: the earlier of two delayed adds, and
//     an immediate add over a delayed one, whichever came first. Nothing is handed
//     out before its delay unless another add asked for it sooner.
//   - L30: every FairEvery-th Get takes the key that has waited longest. So a key
//     with n older ones before it is handed out within FairEvery*(n+1) Gets,
//     whatever priorities, Order and later adds say.
//
// Note that a delayed add of a waiting key merges with it: one hand-out follows, and
// soon. Work that must be done after a certain time must look at the clock and add
// itself again.
//
// # Concurrency
//
// All methods may be called from any goroutine. A queue has one mutex, under
// which it calls no code but the Order. Add, Get and Done hold it for some 10 ns
// each. A goroutine that finds it taken spins for at most some 60 µs, in pauses that
// get longer, before it sleeps. The queue starts no goroutine but for each call of an
// Order, a MetricsProvider or a RateLimiter of the user, which it waits for: that call takes
// a microsecond or two. Delayed adds share one timer, which is set only while there are
// some. Workers that wait in Get are woken
// one per key.
//
// # Failure
//
// Get ends with ErrShutDown or with the cause of its context. A Drain that is cut
// short says what is left. Done of a key that is not running panics, for the same
// reason as unlocking an unlocked mutex.
//
// # Debugging
//
// Status gives the state, depths and counters; Contents lists the keys that
// run, wait and are delayed. With Options.Timestamps, or with metrics, they tell
// since when. A LongestRunning that grows is a worker that hangs; an
// OldestWaiting that grows with Sleeping at zero is too few workers.
package workqueue
