// Package failure defines how the informer stack describes its failures, from the first request to the
// last handler: with their phase, object, cause and duration. Every package above reports its failures
// as a *Failure, so a status, a log line and an error handler all say the same.
//
// # User code
//
// User code may panic, end its goroutine with runtime.Goexit, or block. Three helpers turn the
// first two into an error, a *PanicError or a *GoexitError:
//
//   - Recover, deferred, catches the panic of a call made in place.
//   - Guard catches both in place. After a Goexit only deferred calls still run, so Guard passes the
//     error to a function.
//   - Apart makes the call in a separate goroutine and waits for it, so even a Goexit does no harm.
//     It suits hooks that are called rarely.
//
// A function that blocks cannot be stopped. Make sure that it delays nothing else, and document that the
// function must return.
package failure
