// Package e2e tests the informer stack against a real kube-apiserver, from config.Load to a handler's call.
//
// # Usage
//
//	go -C test/e2e test          # one to two minutes
//	go -C test/e2e test -short   # nothing
//
// # Guarantees
//
// Every test of an informer ends with a comparison of the cache, and of the objects known to a handler from
// its calls alone, with a fresh list. The handler checks each call against the previous ones: an Add of a
// known object, an Update of an unknown one, and a change that goes back in time fail the test (L01 to
// L05).
//
// # Concurrency
//
// The tests share one server and run in parallel, each in its own namespace. Tests that kill the server, or
// need other flags, have their own.
//
// # Failure
//
// If a condition does not become true in time, the test fails with the status of the informer, and with the
// objects that the handler has in excess, is missing or has wrong.
//
// # Debugging
//
// If a test with its own server fails, it prints the end of the server's log.
package e2e
