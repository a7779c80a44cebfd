package reflector

import (
	"context"
	"sync/atomic"
	"time"
)

// watchdog cancels a context with a cause when it is not fed in time.
type watchdog struct {
	timer  *time.Timer
	cancel context.CancelCauseFunc
	cause  atomic.Pointer[error]
}

func startWatchdog(ctx context.Context, after time.Duration, cause error) (context.Context, *watchdog) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watchdog{cancel: cancel}
	w.cause.Store(&cause)
	w.timer = time.AfterFunc(after, func() { cancel(*w.cause.Load()) })
	return ctx, w
}

// feed starts the time anew.
func (w *watchdog) feed(after time.Duration) { w.timer.Reset(after) }

// blame changes the cause.
func (w *watchdog) blame(cause error) { w.cause.Store(&cause) }

// stop ends the watch and its context.
func (w *watchdog) stop() {
	w.timer.Stop()
	w.cancel(context.Canceled)
}
