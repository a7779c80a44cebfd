// Package network simulates the network between clients and a server in one process,
// in the time of a testing/synctest bubble.
//
// # Usage
//
//	n := network.New(seed)
//	link := n.Link("informer-1")
//	config.Dial = link.Dialer(endpoint.Connect) // a pipe endpoint of apiservertest
//	link.Set(network.Conditions{Latency: 20 * time.Millisecond, Loss: 0.01})
//	link.Set(network.Conditions{Partition: true}) // bytes are held
//	link.Set(network.Conditions{})                // and arrive
//	link.Cut()                                    // connections are reset
//	link.BreakNext(network.Break{Toward: network.Client, After: 700, Do: network.Flip})
//
// A connection is a buffer for each direction, as TCP's: writing does not wait until
// somebody reads, unless 64 KiB are under way. Conditions may change at any time. They
// apply to what is sent from then on, but a Partition holds what is in flight as well.
// TCP never loses a byte, and neither does a Link unless it is told to: loss shows as a
// stall, for as long as the retransmissions take.
//
// # Guarantees
//
// What is drawn for a connection depends on the seed, the name of its link, and how
// many dials of the link came before; on nothing else. Without conditions bytes
// arrive at the instant at which they are sent. With a latency the arrivals of each
// direction of each connection have nanoseconds of their own (of 1,500 links with 32
// connections each), so that no two of them deliver at one instant: goroutines that
// become runnable at one instant run in any order. Times are rounded up to a tenth of
// a millisecond for that. What cannot be had: two dials of one link at one instant are
// counted in any order, and a timer of the program may fire at the very instant of an
// arrival.
//
// # Concurrency
//
// All methods may be called concurrently. A connection has no goroutine. It has a timer
// while a reader waits for bytes that are in flight, or for a deadline; when it fires,
// the runtime starts a goroutine that wakes the reader and ends.
package network
