// Package controllertest tests a controller against a simulated API server, with
// virtual time and without a single sleep.
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
// Everything runs in a bubble of testing/synctest: when Put, Delete, Start or
// Settle return, whatever was to happen has happened. So there is nothing to poll
// for. A reconcile that writes takes a second of the bubble's time (Options.Tick), so that no two
// of them read the same time.
//
// Where main adds its controllers to a manager, give what adds them Env.Manager:
//
//	m := e.Manager(manager.Options{})
//	require.NoError(t, addControllers(m))
//	e.Start(m)
//
// An informer needs no controller. Start without arguments starts the factory:
//
//	pods := factory.Informer[*corev1.Pod](e.Factory)
//	e.Start()
//	e.Server.Faults().Add(apiservertest.Fault{Verb: "watch", Do: []apiservertest.Action{apiservertest.Fail{Code: 403}}})
//	e.Settle(time.Hour)
//	t.Log(pods.Status())
//
// A kind of your own needs two things: its Go type in a scheme, and its place on the
// server. See the example of RunWith.
//
// What a program received elsewhere comes again with Replay, so that a bug report becomes a
// test:
//
//	controllertest.Replay(t, "testdata/bug.recording", func(e *controllertest.Env) {
//		e.Start(newController(e.Factory))
//		e.PlayToEnd()
//		...
//	})
//
// # What is simulated
//
// See apiservertest: lists, watches, writes, conflicts, server-side apply,
// finalizers, the status subresource and faults (Env.Server.Faults) behave as those
// of a real server. There is no garbage collection, no other controller, no
// validation and no admission.
//
// # Concurrency
//
// The functions and the methods of an Env may be called from several goroutines of the
// bubble, and from a reconciler: they wait for each other. When the body has returned, they
// fail the test.
//
// # Failure
//
// What cannot be done ends the test with t.Fatal. A controller that changes an object
// of the cache instead of a copy fails the test, with the object and the field, at
// the latest when the informers stop. So does a reconcile that panics, with its stack, unless
// Options.AllowPanics is set, and one that never comes to rest; see Env.Settle.
//
// What has not ended a day after its context, in the bubble's time, is named. Then, as for
// every goroutine that is left at the end, package synctest ends the test's process and shows
// the stacks. What is busy without end, or waits for something outside of the bubble, is
// ended by go test -timeout alone.
//
// # Debugging
//
// When nothing happens, run the test with -v, or let it fail: the test's log has what reconciles
// write to controller.Logger (under -v also at level info), the
// warnings of client and informers, the last reconcile that failed, and what a
// controller waits for. A type that the scheme does not know shows up there.
package controllertest
