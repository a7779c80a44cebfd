package controller

import (
	"context"
	"log/slog"
	"strconv"
	"sync/atomic"

	"github.com/millrace-dev/millrace/controller/internal/ownwrites"
)

// attempt is one call of the reconciler. It is also the context passed to it.
type attempt struct {
	context.Context
	core    *core
	request Request
	id      uint64
	number  int
	reasons reasons
	slow    atomic.Bool // the reconcile was logged as slow
	slot    *slotWork   // nil if the controller handles all objects
	writes  ownwrites.Writes
}

type attemptKey struct{}

func (a *attempt) Value(key any) any {
	if key == (attemptKey{}) {
		return a
	}
	return a.Context.Value(key)
}

// attemptOf returns the reconcile that ctx belongs to, or nil.
func attemptOf(ctx context.Context) *attempt {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	return a
}

// ID returns an identifier of the reconcile that ctx belongs to, unique in this process. It is empty
// outside of a reconcile.
func ID(ctx context.Context) string {
	if a := attemptOf(ctx); a != nil {
		return strconv.FormatUint(a.id, 16)
	}
	return ""
}

// Attempt returns the number of this reconcile since the request last succeeded or failed with a
// terminal error: 1 unless the previous reconcile failed. It is 0 outside of a reconcile.
func Attempt(ctx context.Context) int {
	if a := attemptOf(ctx); a != nil {
		return a.number
	}
	return 0
}

// Causes returns why the reconcile that ctx belongs to runs: at most 8 causes, oldest first. A cause
// that arrives just as the reconcile starts may be listed even though it triggers another reconcile.
func Causes(ctx context.Context) []Cause {
	if a := attemptOf(ctx); a != nil {
		return a.reasons.list(a.request)
	}
	return nil
}

// Logger returns the controller's logger with the attributes controller, request, reconcile and attempt.
// It is built on each call, so reconciles that log nothing pay nothing. Outside of a reconcile it
// discards everything.
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
