package controller

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace-dev/millrace/controller/internal/ownwrites"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/internal/jitter"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/workqueue"
)

// Request names what is to be reconciled. It is what the queue holds: two
// requests that are equal are one.
type Request struct {
	object.Key
	// Cluster tells objects of one name in two clusters apart. It is empty for
	// a controller of one cluster; see Source.InCluster.
	Cluster string
}

// String writes the request as users write keys, with the cluster in front where
// there is one: "shop/web-0", "east:shop/web-0".
func (r Request) String() string { return ownwrites.Request(r).String() }

// RequestFor is the request for an object of the controller's own kind.
func RequestFor(o object.Object) Request { return Request{Key: object.KeyOf(o)} }

// Result says when to reconcile again. The zero value means: when something
// changes.
type Result struct {
	// RequeueAfter asks for another reconcile after this time, or sooner if
	// something changes. It forgets earlier failures. A negative duration, such as
	// time.Until of a past time, acts as Requeue.
	RequeueAfter time.Duration

	// Requeue asks for another reconcile after a back-off that grows each time,
	// as after an error but without one. RequeueAfter wins over it.
	Requeue bool
}

// Reconciler brings what a request names from what it is to what it should be.
//
// Reconcile is never called for one request twice at the same time (L26), and
// for different requests at the same time as often as Options.Concurrency says.
// What the context carries, ID, Attempt, Causes and Logger tell; it ends when the
// controller stops or Options.Timeout is over.
//
// After an error the request is reconciled again with a back-off, and the Result
// does not count, unless the error is Terminal. A panic is an error. What
// source.RetryAfter reads in an error is waited for too.
type Reconciler interface {
	Reconcile(ctx context.Context, req Request) (Result, error)
}

// Func is a Reconciler made of a function.
type Func func(ctx context.Context, req Request) (Result, error)

// Reconcile calls f.
func (f Func) Reconcile(ctx context.Context, req Request) (Result, error) { return f(ctx, req) }

// Terminal marks an error after which to try again is no use: only a change of
// something leads to the next reconcile. Terminal(nil) is nil.
func Terminal(err error) error {
	if err == nil {
		return nil
	}
	return &terminal{err}
}

// IsTerminal reports whether err, or one that it wraps, was marked by Terminal.
func IsTerminal(err error) bool {
	_, ok := errors.AsType[*terminal](err)
	return ok
}

type terminal struct{ error }

func (t *terminal) Unwrap() error { return t.error }

// retry is how to add again what has failed with err: after a back-off, and not before
// the server wants it, if err says when. Up to a quarter is added to that, because the
// server asks many at once.
func retry(err error) workqueue.AddOptions {
	asked, _ := source.RetryAfter(err)
	return workqueue.AddOptions{RateLimited: true, After: asked + jitter.Below(asked/4)}
}

// isConflict reports whether err is a conflict, and nothing else is joined to it.
func isConflict(err error) bool {
	if several, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](err); ok {
		return !slices.ContainsFunc(several.Unwrap(), func(one error) bool { return !isConflict(one) })
	}
	return apierrors.IsConflict(err)
}

// report logs an error, with its stack where it was a panic.
func report(logger *slog.Logger, message string, err error) {
	reportAt(logger, slog.LevelError, message, err)
}

func reportAt(logger *slog.Logger, level slog.Level, message string, err error) {
	attrs := []any{"err", err}
	if p, ok := errors.AsType[*failure.PanicError](err); ok {
		attrs = append(attrs, "stack", string(p.Stack))
	}
	logger.Log(context.Background(), level, message, attrs...)
}
