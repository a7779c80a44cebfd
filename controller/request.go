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

// Request identifies an object to reconcile. The queue merges equal requests.
type Request struct {
	object.Key
	// Cluster is the object's cluster. It is empty for controllers that work on a single cluster; see
	// Source.InCluster.
	Cluster string
}

// String returns the key, prefixed with the cluster if there is one: "shop/web-0", "east:shop/web-0".
func (r Request) String() string { return ownwrites.Request(r).String() }

// RequestFor returns the request for o.
func RequestFor(o object.Object) Request { return Request{Key: object.KeyOf(o)} }

// Result determines when to reconcile again. With the zero value, only a change triggers the next
// reconcile.
type Result struct {
	// RequeueAfter requests another reconcile after this time, or sooner if something changes, and resets
	// the back-off. A negative duration, such as the result of time.Until for a time in the past, is
	// equivalent to Requeue.
	RequeueAfter time.Duration

	// Requeue requests another reconcile with exponential back-off, like an error, but without reporting
	// one. It is ignored if RequeueAfter is set.
	Requeue bool
}

// A Reconciler brings the object identified by a request closer to its desired state.
//
// Reconcile is never called concurrently for the same request (L26). For different requests, up to
// Options.Concurrency calls run in parallel. [ID], [Attempt], [Causes] and [Logger] describe the
// reconcile that a context belongs to. The context is canceled when the controller stops or
// Options.Timeout expires.
//
// If Reconcile fails, the Result is ignored and the request is reconciled again with back-off, unless the
// error is [Terminal]. A panic is treated as an error. If the error includes a retry delay
// (source.RetryAfter), the retry waits at least that long.
type Reconciler interface {
	Reconcile(ctx context.Context, req Request) (Result, error)
}

// Func is an adapter to allow the use of ordinary functions as a [Reconciler].
type Func func(ctx context.Context, req Request) (Result, error)

// Reconcile calls f.
func (f Func) Reconcile(ctx context.Context, req Request) (Result, error) { return f(ctx, req) }

// Terminal marks an error that retrying cannot fix: the request is not reconciled again until something
// changes. Terminal(nil) is nil.
func Terminal(err error) error {
	if err == nil {
		return nil
	}
	return &terminal{err}
}

// IsTerminal reports whether err, or an error it wraps, was marked by [Terminal].
func IsTerminal(err error) bool {
	_, ok := errors.AsType[*terminal](err)
	return ok
}

type terminal struct{ error }

func (t *terminal) Unwrap() error { return t.error }

// retry returns the options for requeueing after err: with back-off, and no earlier than the server asks
// for in err. It extends the server's delay by up to a quarter, because the server sends the same delay to
// many clients at once.
func retry(err error) workqueue.AddOptions {
	asked, _ := source.RetryAfter(err)
	return workqueue.AddOptions{RateLimited: true, After: asked + jitter.Below(asked/4)}
}

// isConflict reports whether err is a conflict and nothing else is joined to it.
func isConflict(err error) bool {
	if several, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](err); ok {
		return !slices.ContainsFunc(several.Unwrap(), func(one error) bool { return !isConflict(one) })
	}
	return apierrors.IsConflict(err)
}

// report logs an error, including the stack if it is a panic.
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
