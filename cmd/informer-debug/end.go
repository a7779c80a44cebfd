package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Why a run ends before it has done all that it could.
var (
	// errInterrupted is the end of a verb that was to find something out, and did not.
	errInterrupted = errors.New("interrupted before it was known")

	// errTimedOut is the cause of a context that --timeout has ended.
	errTimedOut = errors.New("the time asked for is over")

	// errDuration is the cause of one that --duration has ended.
	errDuration = errors.New("the demonstration is over")
)

// limited is ctx with --timeout.
func limited(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, timeout, errTimedOut)
}

// unfinished is the error of a verb that had to be finished, and may not be: an error that
// decides the exit code by itself stands.
func unfinished(ctx context.Context, timeout time.Duration, err error) error {
	cause := context.Cause(ctx)
	if e, ok := errors.AsType[*exitError](err); err == nil || cause == nil || ok && (e.code == exitFalse || e.code == exitUsage) {
		return err
	}
	if !errors.Is(cause, errTimedOut) {
		return &exitError{code: exitRuntime, err: errInterrupted}
	}
	over := fmt.Errorf("--timeout of %s is over", timeout)
	if !errors.Is(err, errTimedOut) {
		over = fmt.Errorf("%w: %w", over, err)
	}
	return &exitError{code: exitTimeout, err: over}
}

// unlessLeft is the error of a verb that goes on until somebody ends it, which is no failure at
// any time.
func unlessLeft(err error) error {
	if errors.Is(err, errInterrupted) {
		return nil
	}
	return err
}

// unwritten is the error for an output that could not be written; nil for none.
func unwritten(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{code: exitRuntime, err: fmt.Errorf("stdout: %w", err)}
}
