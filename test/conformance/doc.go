// Package conformance checks that an informer stack honors the informer contract, which consists of
// client-go's SharedInformer documentation and Millrace's laws. It also checks factories and work queues if
// the stack has them.
//
// # Usage
//
// The package uses a stack through the interface [Stack]. In a test:
//
//	func TestConformance(t *testing.T) {
//		conformance.Informers(t, func(s conformance.Server) conformance.Stack {
//			return myStack{url: s.URL, dial: s.Dial}
//		})
//	}
//
// Each case is a subtest, so you can run it alone:
//
//	go test -run 'TestConformance/L03/a_missed_deletion_is_reported'
//
// # Cases
//
// A case tests one rule of the contract and cites its source: a law in LAWS.md, or a line in client-go's
// documentation. It runs against a simulated API server that deliberately drops connections, forgets history
// and corrupts responses. A stack need not support every feature. If it lacks an optional interface that a
// case needs, such as Versioned, the verdict is "not offered", which is not a failure.
//
// A stack may also break rules that it never promised to keep. Declare each such break with a [Known], which
// describes it and links to the stack's documentation. Cases with a known break still run, and the test fails
// if the stack unexpectedly passes. The exception is a break that crashes the process, such as an unrecovered
// panic in a handler; see Known.Fatal.
//
// # Time
//
// A case runs in a testing/synctest bubble. Time is virtual, and the connections to the server are in-memory
// pipes, so a stack must dial with Server.Dial and use package time's clock. If the stack leaks a goroutine
// that is still there after an hour, the process crashes, but not before the verdict has been reported. If a
// goroutine waits forever for a mutex, the clock stops, and the test fails when go test times out.
//
// # Results
//
// Each subtest sets the attribute "conformance" (testing.T.Attr) to its verdict as JSON. The command
// conformance/table renders the verdicts as results/conformance.md.
package conformance
