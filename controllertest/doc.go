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
// Everything runs in a bubble of testing/synctest: when Put, Delete, Start or Settle return, all
// reactions have happened, so there is nothing to poll for. A reconcile that writes takes a second of
// the bubble's time (Options.Tick), so no two of them read the same time.
//
// If main adds its controllers to a manager, pass Env.Manager to that function:
//
//	m := e.Manager(manager.Options{})
//	require.NoError(t, addControllers(m))
//	e.Start(m)
//
// A test of an informer needs no controller. Start without arguments starts the factory:
//
//	pods := factory.Informer[*corev1.Pod](e.Factory)
//	e.Start()
//	e.Server.Faults().Add(apiservertest.Fault{Verb: "watch", Do: []apiservertest.Action{apiservertest.Fail{Code: 403}}})
//	e.Settle(time.Hour)
//	t.Log(pods.Status())
//
// Your own kinds need a Go type in a scheme and a resource on the server; see the example of RunWith.
//
// Replay plays a recording from another program, which turns a bug report into a test:
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
// subresource and faults (Env.Server.Faults) behave as on a real server. There is no garbage
// collection, no other controller, no validation and no admission.
//
// # Concurrency
//
// The functions and the methods of an Env may be called concurrently by goroutines of the bubble,
// including reconcilers; they wait for each other. After the body has returned, they fail the test.
//
// # Failure
//
// Failed operations end the test with t.Fatal. A controller that changes a cached object instead of a
// copy fails the test, with the object and the field, at the latest when the informers stop. So does a
// reconcile that panics, with its stack, unless Options.AllowPanics is set, and one that never comes
// to rest; see Env.Settle.
//
// Arguments of Start that have not ended a day after their context, in the bubble's time, are named.
// Then, as for every goroutine left at the end, package synctest ends the test process and prints the
// stacks. Goroutines that are busy forever, or wait for something outside of the bubble, are only
// ended by go test -timeout.
//
// # Debugging
//
// If nothing happens, run the test with -v or let it fail. The test's log has the messages that
// reconcilers write to controller.Logger (with -v also at level info), the warnings of the client and
// the informers, the last failed reconcile, and the sources that a controller waits for. It also shows
// types that the scheme lacks.
package controllertest
