package exit

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Reasons why a command ended early.
var (
	// ErrInterrupted means that the command was interrupted before it had a result.
	ErrInterrupted = errors.New("interrupted before there was a result")

	// ErrTimedOut is the cancellation cause when --timeout expires.
	ErrTimedOut = errors.New("timed out")

	// ErrDuration is the cancellation cause when --duration expires.
	ErrDuration = errors.New("--duration has expired")
)

// Limited returns ctx with --timeout applied.
func Limited(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, timeout, ErrTimedOut)
}

// Unfinished returns the error for an interrupted command. If err already determines the exit code, it
// returns err.
func Unfinished(ctx context.Context, timeout time.Duration, err error) error {
	cause := context.Cause(ctx)
	if e, ok := errors.AsType[*Error](err); err == nil || cause == nil || ok && (e.Code == CodeFalse || e.Code == CodeUsage) {
		return err
	}
	if !errors.Is(cause, ErrTimedOut) {
		return &Error{Code: CodeRuntime, Err: ErrInterrupted}
	}
	over := fmt.Errorf("--timeout of %s expired", timeout)
	if !errors.Is(err, ErrTimedOut) {
		over = fmt.Errorf("%w: %w", over, err)
	}
	return &Error{Code: CodeTimeout, Err: over}
}

// UnlessLeft returns err, or nil if it is [ErrInterrupted]. Use it in commands that run until the user
// stops them.
func UnlessLeft(err error) error {
	if errors.Is(err, ErrInterrupted) {
		return nil
	}
	return err
}

// Unwritten returns the error for a failed write to stdout, or nil if err is nil.
func Unwritten(err error) error {
	if err == nil {
		return nil
	}
	return &Error{Code: CodeRuntime, Err: fmt.Errorf("stdout: %w", err)}
}
