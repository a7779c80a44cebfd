// Package conformance checks that an informer stack keeps the contract of informers: client-go's
// documentation of its SharedInformer, and Millrace's laws. Stacks with factories and work queues are
// checked for these too.
//
// # Usage
//
// The package sees a stack through the interface [Stack]. In a test:
//
//	func TestConformance(t *testing.T) {
//		conformance.Informers(t, func(s conformance.Server) conformance.Stack {
//			return myStack{url: s.URL, dial: s.Dial}
//		})
//	}
//
// Each case is a subtest, so it can be run alone:
//
//	go test -run 'TestConformance/L03/a_missed_deletion_is_reported'
//
// # Cases
//
// A case tests one sentence, with its source: a law of LAWS.md, or a line of client-go's documentation. It
// plays against a simulated API server that loses connections, forgets history and corrupts answers on
// purpose. A stack need not have every feature: if it lacks an optional interface that a case needs, such
// as Versioned, the case counts as not offered, which is no failure.
//
// A stack may also break a sentence that it never promised. Declare such breaks with a Known, which
// describes the break and links to the stack's documentation. A known break is still played: if it no
// longer breaks, the test fails. The exception is a break that ends the process, such as an unrecovered
// panic of a handler: see Known.Fatal.
//
// # Time
//
// A case runs in a bubble of testing/synctest: time is virtual, and the connections to the server are pipes
// in memory. So a stack must dial with Server.Dial and wait by the clock of package time. A goroutine that
// it leaves behind for an hour ends the process, after the verdict has been reported. A goroutine that
// waits forever for a mutex stops the clock, and go test ends it with its own timeout.
//
// # Results
//
// Each subtest has the attribute "conformance" (testing.T.Attr) with the verdict in JSON. The command
// conformance/table renders them as results/conformance.md.
package conformance
