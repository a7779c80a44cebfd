// Package conformance holds an informer stack to the contract of informers: what
// client-go documents of its SharedInformer, and the laws that Millrace adds to it. A
// stack that has factories and work queues is held to what is said of these too.
//
// # Usage
//
// A stack is what the package is told of it. In a test:
//
//	func TestConformance(t *testing.T) {
//		conformance.Informers(t, func(s conformance.Server) conformance.Stack {
//			return myStack{url: s.URL, dial: s.Dial}
//		})
//	}
//
// Each case is a subtest, so one can be run alone:
//
//	go test -run 'TestConformance/L03/a_missed_deletion_is_told'
//
// # Cases
//
// A case is one sentence that can be wrong, with its source: a law of LAWS.md, or a
// line of client-go's documentation. It plays against a simulated API server that
// loses connections, forgets history and garbles answers on purpose. A stack need not
// have everything: what a case asks for by an optional interface, such as Versioned, and
// does not get, is not offered, which is no failure.
//
// A stack may also break a sentence that it never promised. Say so with a Known, which
// tells what happens and where its documentation says what may be expected. A known
// break is still played: when it no longer breaks, the test fails. One that ends the
// process, such as the panic of a handler in a stack that recovers none, is not: see
// Known.Fatal.
//
// # Time
//
// A case lives in a bubble of testing/synctest: time is virtual, and the connections to
// the server are pipes in memory. So a stack must dial with Server.Dial, wait by the
// clock of package time, and leave no goroutine behind for an hour: one ends the process, when
// the verdict has been told. A goroutine that waits for a mutex
// for ever stops the clock, and go test ends it with its own timeout.
//
// # Results
//
// Each subtest has the attribute "conformance" (testing.T.Attr), with the verdict in
// JSON. The command conformance/table makes results/conformance.md of them.
package conformance
