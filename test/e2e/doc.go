// Package e2e tests the informer stack against a real kube-apiserver, from config.Load to handler calls.
//
// # Usage
//
//	go -C test/e2e test          # one to two minutes
//	go -C test/e2e test -short   # nothing
//
// # Guarantees
//
// At the end, every informer test compares a fresh list with the cache, and with the objects a handler knows
// about purely from its calls. The handler checks each call against the previous ones. The test fails if a
// known object is added, an unknown object is updated, or a change goes back in time (L01 to L05).
//
// # Concurrency
//
// The tests share one server and run in parallel, each in its own namespace. Tests that kill the server, or
// need different flags, start their own server.
//
// # Failure
//
// If a condition does not become true in time, the test fails with the informer's status and a list of the
// objects that the handler is missing, should not have, or has in the wrong state.
//
// # Debugging
//
// A failing test with its own server prints the end of the server's log.
package e2e
