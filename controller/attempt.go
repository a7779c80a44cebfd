package controller

import (
	"context"
	"log/slog"
	"strconv"
	"sync/atomic"

	"github.com/millrace-dev/millrace/controller/internal/ownwrites"
)

// attempt is one call of the reconciler, and the context that it gets.
type attempt struct {
	context.Context
	core    *core
	request Request
	id      uint64
	number  int
	reasons reasons
	slow    atomic.Bool // the log has named it
	slot    *slotWork   // nil if the controller works on everything
	writes  ownwrites.Writes
}

type attemptKey struct{}

// Value returns the attempt itself under its key.
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

// ID returns what tells the reconcile that ctx belongs to from all others of
// this process; empty outside of a reconcile.
func ID(ctx context.Context) string {
	if a := attemptOf(ctx); a != nil {
		return strconv.FormatUint(a.id, 16)
	}
	return ""
}

// Attempt returns how many reconciles of this request have been begun since the
// last that did not fail, this one included: 1 unless the one before failed. A
// terminal error ends the count too. It is 0 outside of a reconcile.
func Attempt(ctx context.Context) int {
	if a := attemptOf(ctx); a != nil {
		return a.number
	}
	return 0
}

// Causes returns why the reconcile that ctx belongs to happens: at most 8
// reasons, in the order in which they came up. A reason that came up at the very
// moment at which the reconcile began may be among those of this one though it
// leads to the next.
func Causes(ctx context.Context) []Cause {
	if a := attemptOf(ctx); a != nil {
		return a.reasons.list(a.request)
	}
	return nil
}

// Logger returns the controller's logger with what tells this reconcile from
// others: controller, request, reconcile and attempt. It is made at each call, so
// that a reconcile that logs nothing costs nothing. Outside of a reconcile it is
// silent.
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
