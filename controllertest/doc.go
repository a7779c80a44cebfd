// Package controllertest tests controllers against a simulated API server, in virtual time and without
// sleeps.
//
// # Usage
//
//	func TestScale(t *testing.T) {
//		controllertest.Run(t, func(e *controllertest.Env) {
//			e.Start(newController(e.Factory))
//			controllertest.Put(e, &appsv1.Deployment{...})
//			got := controllertest.Get[*appsv1.ReplicaSet](e, key)
//			...
//			e.Settle(time.Hour) // an hour passes at once
//		})
//	}
//
// Everything runs in a bubble of testing/synctest: when Put, Delete, Start or Settle returns, everything
// has already reacted, so there is no need to poll. A reconcile that writes takes one second of bubble time
// (Options.Tick), so no two such reconciles read the same time.
//
// If main adds its controllers to a manager, call the same function with a manager from Env.Manager:
//
//	m := e.Manager(manager.Options{})
//	require.NoError(t, addControllers(m))
//	e.Start(m)
//
// Informers can be tested without a controller. Start without arguments starts the factory:
//
//	pods := factory.Informer[*corev1.Pod](e.Factory)
//	e.Start()
//	e.Server.Faults().Add(apiservertest.Fault{Verb: "watch", Do: []apiservertest.Action{apiservertest.Fail{Code: 403}}})
//	e.Settle(time.Hour)
//	t.Log(pods.Status())
//
// Custom kinds need a Go type in a scheme and a resource on the server; see the RunWith example.
//
// Replay plays back a recording made by another program, which turns a bug report into a test:
//
//	controllertest.Replay(t, "testdata/bug.recording", func(e *controllertest.Env) {
//		e.Start(newController(e.Factory))
//		e.PlayToEnd()
//		...
//	})
//
// # What is simulated
//
// See apiservertest: lists, watches, writes, conflicts, server-side apply, finalizers, the status
// subresource and injected faults (Env.Server.Faults) behave as on a real server. There is no garbage
// collection, validation or admission, and there are no other controllers.
//
// # Concurrency
//
// The functions and the methods of an Env may be called concurrently from any goroutine in the bubble,
// including reconcilers; calls are serialized. Calls made after the body has returned fail the test.
//
// # Failure
//
// Failed operations end the test with t.Fatal. If a controller modifies a cached object instead of a copy,
// the test fails, at the latest when the informers stop; the message includes the object and the field. The
// test also fails if a reconciler, or another function that a controller or an informer calls, panics, unless
// Options.AllowPanics is set (the message includes the stack), or if reconciles never settle; see Env.Settle.
//
// Arguments of Start that have not returned within a day of bubble time after their context was canceled
// are reported. Then, as with any goroutine that is left over, package synctest terminates the test process
// and prints the stacks. If a goroutine is busy forever or waits for something outside the bubble, only go
// test -timeout terminates it.
//
// # Debugging
//
// If nothing happens, run the test with -v or make it fail. The test's log contains the messages that
// reconcilers write to controller.Logger (including info messages under -v), warnings from the client and
// the informers, the last failed reconcile, and the sources that a controller is waiting for. It also
// reports types that the scheme lacks.
package controllertest
