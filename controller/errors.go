package controller

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/internal/jitter"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/workqueue"
)

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
