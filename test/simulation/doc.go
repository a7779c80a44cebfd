// Package simulation plays schedules of changes, faults and users against everything that
// Millrace has, in one process and in virtual time.
//
// A seed makes a Schedule, which is plain data: a world (server, informers of all forms,
// a controller, candidates for a lease, a factory, a bare work queue) and steps. Play plays
// it in a bubble of testing/synctest, against the simulated API server of apiservertest,
// and says what was seen to be wrong:
//
//   - at every call of a handler: pairing, order, identity, the final state, the cache ahead
//     of the call, no call after it has left, no resync before it is synced or unasked, no
//     update to the version that it knows, and that the object is whole (L01, L03 to L05, L07,
//     L11, L17, L18, W01)
//   - at every call of a transform: that the object is new, and in nobody else's hands (L16)
//   - at every failure and state that an informer tells of: that it waits as it should, longer
//     each time, lists again only for a reason, and is in no state for too long (L19, L20),
//     and that its status shows what it told (L22)
//   - while the custom kind is not served, has no namespaces or has another version: that the
//     status says so, or that everybody has what there is (L17, L22)
//   - while a resource is refused for good: that each of its informers says that it is stale, and no
//     other one (L31)
//   - at every request: that no client comes back before the server wants it to (L19)
//   - after every step: that each cache shows one moment of the server, as a whole, which is
//     not before what its resource version promises nor before what it showed last (L12,
//     L13), that lookups equal scans (L15), and that an informer runs for as long as it has
//     users, and no longer (L25)
//   - whenever a wait for a resource version ends: that it was reached (L14)
//   - when an informer of a new process has synced: that it has what the server had when it began,
//     whatever its snapshot said (L18, C02)
//   - at every reconcile: that no other of its key is under way (L26), and that what failed
//     or asked for another time comes back in time (L29)
//   - at every key of the work queue: that nobody else has it, that it was asked for and is
//     due, and that others have not been preferred for too long (L26, L27, L29, L30); and
//     when the queue ends, that nothing is left (L28)
//   - at every term of a leader: that nobody else leads, and that tokens grow
//   - at the end, when all is healed: that caches, handlers and what the controller has
//     made equal what the server has (L14, L17, L18, L27), that every failure was told of
//     (L22), that one candidate leads, that every Run returns, and that no goroutine is left
//     (L23)
//
// # To run it
//
//	go -C test/simulation test                        # 150 schedules
//	make simulate RUNS=100000                        # on all cores
//	make simulate TIME=8h FROM=1000000
//	go -C test/simulation test -run TestSchedules -v -args -seed 4417
//
// The last tells what happens at which time. Command simulate shrinks a schedule in which
// something is wrong and prints it as Go source, to be put into a test with Play.
//
// # What repeats
//
// All draws follow from the seed, steps never fall on one instant, each arrival from the
// network has an instant of its own, and so has each feed of an informer that has several.
// With GOMAXPROCS=1, as command simulate sets it, a seed then leads to the same events at the
// same times, which a test of that command asserts. Now and then a play differs, since Go
// leaves these open:
//
//   - Timers of one instant fire in any order, the children of a context end in any order, and
//     a select takes any of what is ready. So an election that loses its Lease names either of
//     two renewals that end at its deadline, and a request takes either of two connections
//     that are idle: the next one then arrives some nanoseconds earlier or later.
//   - A goroutine that has run for ten milliseconds of real time has to wait, in the middle of
//     an instant. A busy machine makes that happen more often.
//   - Whoever reads or writes a file, as informers with snapshots do, is waited for by nobody.
//
// Under the race detector the scheduler is random on purpose.
//
// # What cannot be promised
//
// Nobody could keep these, so the worlds leave them out:
//
//   - An object that a reconcile creates while its cache's watch is out, and that somebody
//     deletes before the watch is back, was never there for the cache: no event tells the
//     controller. A resync finds it.
//   - What a reconcile wrote while its cache's watch was out, and a restore has undone before
//     the watch is back, was never there for the cache either.
//   - Where a backup is restored without raising the resource versions, and the cluster has
//     come past the version of a cache before that cache looks, nothing tells it.
//   - Bytes that are altered on the way may be another valid object. TLS is for that.
package simulation
