// Package e2e runs the informer stack, from config.Load to a handler's
// call, against a real kube-apiserver.
//
// # Usage
//
//	go -C test/e2e test          # one to two minutes
//	go -C test/e2e test -short   # nothing
//
// # Guarantees
//
// Every test of an informer ends with a comparison: what the cache holds and
// what a handler knows from its calls alone, against a fresh list. The handler
// checks each call against the one before: an Add of what it knows, an Update
// of what it does not, a change that goes back in time all fail the test (L01
// to L05).
//
// # Concurrency
//
// The tests share one server and run in parallel, each in a namespace of its
// own. Those that kill the server, or need it started otherwise, have their own.
//
// # Failure
//
// If a condition does not come true in time, the test fails with the status of the
// informer, and with what the handler knows in excess, too little or wrong.
//
// # Debugging
//
// The end of the server's log is printed when a test with a server of its own
// fails.
package e2e
