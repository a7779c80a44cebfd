package exit

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Why a run ends before it has done all that it could.
var (
	// ErrInterrupted is the end of a verb that was to find something out, and did not.
	ErrInterrupted = errors.New("interrupted before it was known")

	// ErrTimedOut is the cause of a context that --timeout has ended.
	ErrTimedOut = errors.New("the time asked for is over")

	// ErrDuration is the cause of one that --duration has ended.
	ErrDuration = errors.New("--duration is over")
)

// Limited is ctx with --timeout.
func Limited(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, timeout, ErrTimedOut)
}

// Unfinished is the error of a verb that had to be finished, and may not be: an error that
// decides the exit code by itself stands.
func Unfinished(ctx context.Context, timeout time.Duration, err error) error {
	cause := context.Cause(ctx)
	if e, ok := errors.AsType[*Error](err); err == nil || cause == nil || ok && (e.Code == CodeFalse || e.Code == CodeUsage) {
		return err
	}
	if !errors.Is(cause, ErrTimedOut) {
		return &Error{Code: CodeRuntime, Err: ErrInterrupted}
	}
	over := fmt.Errorf("--timeout of %s is over", timeout)
	if !errors.Is(err, ErrTimedOut) {
		over = fmt.Errorf("%w: %w", over, err)
	}
	return &Error{Code: CodeTimeout, Err: over}
}

// UnlessLeft is the error of a verb that goes on until somebody ends it, which is no failure at
// any time.
func UnlessLeft(err error) error {
	if errors.Is(err, ErrInterrupted) {
		return nil
	}
	return err
}

// Unwritten is the error for an output that could not be written; nil for none.
func Unwritten(err error) error {
	if err == nil {
		return nil
	}
	return &Error{Code: CodeRuntime, Err: fmt.Errorf("stdout: %w", err)}
}
