// Package failure is what can go wrong in the informer stack, from the first
// request to the last handler: in which phase, on what, why, and for how long.
// Every package above reports its failures as a *Failure, so that a status, a log line
// and an error handler all say the same.
//
// # User code
//
// User code may panic, end its goroutine with runtime.Goexit, or block. Three helpers
// turn the first two into an error, a *PanicError or a *GoexitError:
//
//   - Recover, deferred, catches the panic of a call made in place.
//   - Guard catches both in place. After a Goexit only deferred calls still run, so it
//     hands the error to a function.
//   - Apart makes the call in a goroutine of its own and waits for it, so even a
//     Goexit does no harm. It suits hooks that are called rarely.
//
// There is no cure for a function that blocks. Call it where it delays nothing else,
// and say so.
package failure
