// Package network simulates the network between clients and a server in a single process, using the fake
// clock of a testing/synctest bubble.
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
// Like a TCP connection, a connection has a buffer in each direction: a write does not wait for the reader
// unless 64 KiB are in flight or unread. Conditions may change at any time. Changes apply to bytes that
// are sent afterwards, except that a Partition also holds back bytes in flight. As in TCP, packet loss
// does not lose bytes. It shows up as a stall that lasts as long as the retransmissions take.
//
// # Guarantees
//
// The random numbers for a connection depend only on the seed, the name of its link, and the number of
// earlier dials on that link. Under default conditions, bytes arrive the instant they are sent. With a
// latency, each direction of each connection (for up to 1,500 links with 32 connections each) has its own
// nanosecond offset for arrivals, so no two of them deliver at the same instant. This matters because
// goroutines that become runnable at the same instant run in any order. To make room for the offsets,
// times are rounded up to a tenth of a millisecond. Two things remain nondeterministic: simultaneous
// dials on the same link, and timers in the program that fire at the instant of an arrival.
//
// # Concurrency
//
// All methods are safe for concurrent use. A connection has no goroutine. It has a timer while a reader
// waits for bytes in flight or for a deadline; when the timer fires, the runtime starts a goroutine that
// wakes the reader and exits.
package network
