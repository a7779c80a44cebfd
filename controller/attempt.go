package controller

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync/atomic"

	"github.com/millrace-dev/millrace/controller/internal/ownwrites"
	"github.com/millrace-dev/millrace/failure"
)

// attempt is a single call to the reconciler. It is also the context passed to it.
type attempt struct {
	context.Context
	core    *core
	request Request
	id      uint64
	number  int
	reasons reasons
	slow    atomic.Bool // set once noteSlow has logged the reconcile
	slot    *slotWork   // nil if the controller handles all objects
	writes  ownwrites.Writes

	unreturned bool // the reconciler was called and did not return: it panicked or called runtime.Goexit
}

type attemptKey struct{}

func (a *attempt) Value(key any) any {
	if key == (attemptKey{}) {
		return a
	}
	return a.Context.Value(key)
}

// panicOf returns the reconciler's panic, given the attempt's error. An error that the reconciler returned may wrap
// somebody else's panic, such as a transform's, and does not count.
func (a *attempt) panicOf(err error) (*failure.PanicError, bool) {
	p, is := errors.AsType[*failure.PanicError](err)
	return p, is && a.unreturned
}

// attemptOf returns the reconcile that ctx belongs to, or nil.
func attemptOf(ctx context.Context) *attempt {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	return a
}

// ID returns the ID of the reconcile that ctx belongs to. IDs are unique within the process. It is empty
// outside a reconcile.
func ID(ctx context.Context) string {
	if a := attemptOf(ctx); a != nil {
		return strconv.FormatUint(a.id, 16)
	}
	return ""
}

// Attempt returns how many times the request has been tried since it last succeeded or failed with a
// terminal error, including this time: 1 unless the previous reconcile failed. It is 0 outside a
// reconcile.
func Attempt(ctx context.Context) int {
	if a := attemptOf(ctx); a != nil {
		return a.number
	}
	return 0
}

// Causes returns the reasons for the reconcile that ctx belongs to: at most 8, oldest first. A cause
// that arrives while the reconcile is starting may be listed even though it triggers another reconcile.
func Causes(ctx context.Context) []Cause {
	if a := attemptOf(ctx); a != nil {
		return a.reasons.list(a.request)
	}
	return nil
}

// Logger returns the controller's logger with the attributes controller, request, reconcile and attempt.
// The logger is built on each call, so reconciles that log nothing do not pay for it. Outside a reconcile
// it discards everything.
func Logger(ctx context.Context) *slog.Logger {
	if a := attemptOf(ctx); a != nil {
		return a.logger()
	}
	return slog.New(slog.DiscardHandler)
}

func (a *attempt) logger() *slog.Logger {
	return a.core.opts.Logger.With("controller", a.core.name, "request", a.request.String(),
		"reconcile", strconv.FormatUint(a.id, 16), "attempt", a.number)
}
