package reflector

import (
	"context"
	"sync/atomic"
	"time"
)

// watchdog cancels a context with a cause when it is not fed in time. It barks at
// the server alone: while the reflector itself is busy, it waits.
type watchdog struct {
	timer  *time.Timer
	cancel context.CancelCauseFunc
	cause  atomic.Pointer[error]
	busy   atomic.Bool
}

// busyGrace is how long the server has after the reflector was busy.
const busyGrace = 10 * time.Second

func startWatchdog(ctx context.Context, after time.Duration, cause error) (context.Context, *watchdog) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watchdog{cancel: cancel}
	w.cause.Store(&cause)
	ready := make(chan struct{})
	w.timer = time.AfterFunc(after, func() {
		<-ready
		if w.busy.Load() {
			w.timer.Reset(busyGrace)
			return
		}
		cancel(*w.cause.Load())
	})
	close(ready)
	return ctx, w
}

// feed starts the time anew.
func (w *watchdog) feed(after time.Duration) { w.timer.Reset(after) }

// expect starts the time anew with another cause.
func (w *watchdog) expect(after time.Duration, cause error) {
	w.cause.Store(&cause)
	w.feed(after)
}

// stop ends the watch and its context.
func (w *watchdog) stop() {
	w.timer.Stop()
	w.cancel(context.Canceled)
}
