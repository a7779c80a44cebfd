// Package simulation plays schedules of changes, faults and users against everything that
// Millrace has, in one process and in virtual time.
//
// A seed makes a Schedule, which is plain data: a world (server, informers of all forms,
// a controller, candidates for a lease) and steps. Play plays it in a bubble of
// testing/synctest, against the simulated API server of test/apiserver, and says what was
// seen to be wrong:
//
//   - at every call of a handler: pairing, order, identity, the cache ahead of the call, and
//     that the object is whole (L01, L03 to L05, L07, L11, W01)
//   - after every step: that each cache shows one moment of the server, as a whole, which is
//     not before what its resource version promises nor before what it showed last (L12,
//     L13), that lookups equal scans (L15), and that who fails says why (L22)
//   - whenever a wait for a resource version ends: that it was reached (L14)
//   - at every reconcile: that no other of its key is under way (L26)
//   - at every term of a leader: that nobody else leads, and that tokens grow
//   - at the end, when all is healed: that caches, handlers and what the controller has
//     made equal what the server has (L17, L18, L27), that one candidate leads, that every
//     Run returns, and that no goroutine is left (L23)
//
// # To run it
//
//	go test ./test/simulation                        # 300 schedules
//	make simulate RUNS=100000                        # on all cores
//	make simulate TIME=8h FROM=1000000
//	go test ./test/simulation -run TestSchedules -v -args -seed 4417
//
// The last tells what happens at which time. Command simulate shrinks a schedule in which
// something is wrong and prints it as Go source, to be put into a test with Play.
//
// # What repeats
//
// All draws follow from the seed, steps never fall on one instant, and each arrival from the
// network has an instant of its own. With GOMAXPROCS=1, as command simulate sets it, a seed
// then leads to the same events at the same times, which a test of that command asserts. It
// may be different where several dial by one link at one instant, because they run in either
// order: the two informers of a controller do, and the feeds of several namespaces. Under the
// race detector the scheduler is random on purpose.
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
