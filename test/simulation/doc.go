// Package simulation plays schedules of changes, faults and user actions against all parts of Millrace, in
// one process and in virtual time.
//
// A seed determines a Schedule, which is plain data: a world (server, informers of all forms, a
// controller, candidates for a lease, a factory, a work queue on its own) and steps. Play runs the
// schedule in a bubble of testing/synctest against the simulated API server of apiservertest, and
// reports violations. It checks
//
//   - at every call of a handler: pairing, order, identity, the final state, that the cache is
//     ahead of the call, that no call follows its removal, no resync comes before the sync or
//     unrequested, no update repeats a known version, and the object is whole (L01, L03 to L05,
//     L07, L11, L17, L18, W01)
//   - at every call of a transform: that the object is new and not in use elsewhere (L16)
//   - at every reported failure and state of an informer: that it waits as required, longer
//     each time, relists only for a reason, and stays in no state for too long (L19, L20), and
//     that its status agrees with its reports (L22)
//   - while the custom kind is not served, has no namespaces or has another version: that the
//     status reports this, or that every informer has the existing objects (L17, L22)
//   - while a resource is refused: that each of its informers reports that it is stale, and no
//     other informer does (L31)
//   - at every request: that no client returns before the server allows it (L19)
//   - after every step: that each cache shows one whole moment of the server, not before its
//     resource version's nor before the last one it showed (L12, L13), that lookups equal scans
//     (L15), and that an informer runs exactly while it has users (L25)
//   - at the end of each wait for a resource version: that it was reached (L14)
//   - at the sync of an informer in a new process: that it has the server's state from its
//     start, whatever its snapshot contained (L18, C02)
//   - at every reconcile: that no other one of its key is in progress (L26), and that failed
//     and requeued requests return in time (L29)
//   - at every key of the work queue: that no other worker has it, that it was added and is
//     due, and that other keys did not overtake it for too long (L26, L27, L29, L30); and when
//     the queue ends, that nothing is left (L28)
//   - at every term of a leader: that there is no other leader, and that tokens increase
//   - at the end, after all faults: that caches, handlers and the controller's objects equal
//     the server's state (L14, L17, L18, L27), that every failure was reported (L22), that one
//     candidate leads, that every Run returns, and that no goroutine is left (L23)
//
// # To run it
//
//	go -C test/simulation test                        # 150 schedules
//	make simulate RUNS=100000                        # on all cores
//	make simulate TIME=8h FROM=1000000
//	go -C test/simulation test -run TestSchedules -v -args -seed 4417
//
// The last command traces all events with their times. Command simulate shrinks a failing schedule and
// prints it as Go source for a test with Play.
//
// # What repeats
//
// All random draws derive from the seed. No two steps happen at the same instant, nor do two arrivals
// from the network, nor events of two feeds of an informer. With GOMAXPROCS=1, which the command
// simulate sets, a seed therefore leads to the same events at the same times. A test of that command
// checks this. Occasionally a play differs, because Go leaves the following open:
//
//   - Timers of one instant fire in any order, the children of a context end in any order, and
//     a select chooses any ready case. So an election that loses its Lease names either of two
//     renewals that end at its deadline, and a request uses either of two idle connections: the
//     next one then arrives some nanoseconds earlier or later.
//   - A goroutine that has run for ten milliseconds of real time is preempted in the middle of
//     an instant. This happens more often on a busy machine.
//   - Virtual time does not wait for file access, as by informers with snapshots.
//
// The race detector randomizes the scheduler on purpose.
//
// # What cannot be promised
//
// The worlds avoid these situations, in which no implementation could keep the promises:
//
//   - An object that a reconcile creates during an outage of its cache's watch, and that is
//     deleted before the watch returns, never existed for the cache: no event reaches the
//     controller. A resync finds it.
//   - The same holds for a write during an outage that a restore undoes before the watch
//     returns.
//   - If a backup is restored without raising the resource versions, and the cluster passes the
//     version of a cache before that cache looks, the cache cannot notice.
//   - Bytes altered in transit may form another valid object. TLS prevents this.
package simulation
