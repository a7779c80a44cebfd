// Package conformance checks that an informer stack keeps the contract of informers: client-go's
// documentation of its SharedInformer, and Millrace's laws. If a stack has factories and work queues,
// the package checks these too.
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
// Each case is a subtest, so you can run it alone:
//
//	go test -run 'TestConformance/L03/a_missed_deletion_is_reported'
//
// # Cases
//
// A case tests one sentence and names its source: a law of LAWS.md, or a line of client-go's
// documentation. It plays against a simulated API server that loses connections, forgets history and
// corrupts answers on purpose. A stack need not have every feature. If it lacks an optional interface
// that a case needs, such as Versioned, the case counts as not offered, which is not a failure.
//
// A stack may also break a sentence that it never promised. Declare such breaks with a Known, which
// describes the break and links to the stack's documentation. A known break is still played, and the
// test fails if the stack no longer breaks the sentence. The exception is a break that ends the process,
// such as an unrecovered panic of a handler; see Known.Fatal.
//
// # Time
//
// A case runs in a bubble of testing/synctest. Time is virtual, and the connections to the server are
// pipes in memory, so a stack must dial with Server.Dial and use the clock of package time. If the stack
// leaves a goroutine behind for an hour, the process ends, after the verdict has been reported. If a
// goroutine waits forever for a mutex, the clock stops, and the test ends with the timeout of go test.
//
// # Results
//
// Each subtest has the attribute "conformance" (testing.T.Attr) with the verdict in JSON. The command
// conformance/table renders the verdicts as results/conformance.md.
package conformance
