// Package simulation runs schedules of changes, faults and user actions against all of Millrace, in one
// process and in virtual time.
//
// A seed determines a [Schedule], which is plain data: a world (a server, informers of every kind, a
// controller, candidates for a lease, a factory, a standalone work queue) and steps. [Play] runs the schedule
// in a testing/synctest bubble against apiservertest's simulated API server, and reports violations. It
// checks
//
//   - at every handler call: pairing, order, identity, the final state, that the cache is ahead of the
//     call, that no call follows the handler's removal, no resync is unrequested or precedes the sync, no
//     update repeats a known version, and the object is consistent (L01, L03 to L05, L07, L11, L17, L18,
//     W01)
//   - at every transform call: that the object is new and not in use elsewhere (L16)
//   - at every failure and state that an informer reports: that it waits as required, longer each time,
//     relists only for a reason, does not stay in any state for too long (L19, L20), and that its status
//     agrees with its reports (L22)
//   - while the custom kind is not served, is cluster-scoped or has a different version: that the status
//     reports this, or that every informer has the existing objects (L17, L22)
//   - while requests for a resource are rejected: that its informers, and no others, report that they are
//     stale (L31)
//   - at every request: that no client retries before the server allows it (L19)
//   - after every step: that each cache shows the server's complete state at one point in time, not before
//     the cache's resource version nor before the last state it showed (L12, L13), that lookups match scans
//     (L15), and that an informer runs exactly while it has users (L25)
//   - whenever a wait for a resource version returns: that the version was reached (L14)
//   - when an informer in a new process syncs: that its state is at least as new as the server's when it
//     started, whatever its snapshot contained (L18, C02)
//   - at every reconcile: that no other reconcile of its key is in progress (L26), and that failed and
//     requeued requests are retried in time (L29)
//   - whenever the work queue hands out a key: that no other worker has it, that it was added and is due,
//     and that other keys did not overtake it for too long (L26, L27, L29, L30); and when the queue shuts
//     down, that nothing is left (L28)
//   - whenever a candidate starts leading: that there is no other leader, and that tokens increase
//   - at the end, once all faults are over: that caches, handlers and the controller's objects match the
//     server's state (L14, L17, L18, L27), that every failure was reported (L22), that one candidate leads,
//     that every Run returns, and that no goroutine is left (L23)
//
// # Running it
//
//	go -C test/simulation test                        # 150 schedules
//	make simulate RUNS=100000                        # on all cores
//	make simulate TIME=8h FROM=1000000
//	go -C test/simulation test -run TestSchedules -v -args -seed 4417
//
// The last command traces all events with their times. Command simulate shrinks a failing schedule and
// prints it as Go source for a test with Play.
//
// # Reproducibility
//
// All random numbers derive from the seed. No two steps happen at the same instant, nor do two arrivals from
// the network, nor events from two of an informer's feeds. With GOMAXPROCS=1, which the command simulate
// sets, a seed therefore leads to the same events at the same times. A test of that command checks this.
// Occasionally a run differs, because Go leaves the following unspecified:
//
//   - Timers due at the same instant fire in any order, a context's children are canceled in any order, and a
//     select chooses any ready case. So an election that loses its Lease may report either of two renewals
//     that fail at its deadline. And a request may use either of two idle connections, so the next one
//     arrives some nanoseconds earlier or later.
//   - A goroutine that has run for ten milliseconds of real time is preempted in the middle of a virtual
//     instant. This happens more often on a busy machine.
//   - Virtual time does not wait for file I/O, which informers with snapshots do.
//
// The race detector randomizes the scheduler on purpose.
//
// # Excluded situations
//
// Schedules avoid these situations, in which no implementation could keep its promises:
//
//   - If a reconcile creates an object while its cache's watch is down, and the object is deleted before the
//     watch recovers, it never existed as far as the cache is concerned: no event reaches the controller. A
//     resync detects it.
//   - The same is true if a restore undoes a write before the watch recovers.
//   - If a backup is restored without raising the resource versions, and the cluster passes a cache's
//     version before that cache checks, the cache cannot notice.
//   - Bytes altered in transit may form another valid object. TLS prevents this.
package simulation
