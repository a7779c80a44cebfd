// Package failure defines how the informer stack reports failures, from the first request to the last
// handler: with phase, object, cause and duration. Every package above it reports failures as a *Failure, so
// a status, a log line and an error handler all show the same information.
//
// # User code
//
// User code may panic, exit its goroutine with runtime.Goexit, or block. Three helpers turn the first two
// into an error, a *PanicError or a *GoexitError:
//
//   - Recover, when deferred, catches a panic in the calling function.
//   - Guard catches both in the calling goroutine. After a Goexit only deferred calls still run,
//     so Guard passes the error to a function.
//   - Apart makes the call in a separate goroutine and waits for it, so even a Goexit is harmless.
//     Use it for hooks that are rarely called.
//
// A function that blocks cannot be stopped. Make sure that nothing else waits for it, and document that the
// function must return.
package failure
