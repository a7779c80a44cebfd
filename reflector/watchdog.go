package reflector

import (
	"context"
	"sync/atomic"
	"time"
)

// watchdog cancels a context with a cause if it is not fed in time. It monitors only the server, so it is
// suspended while the reflector is busy or the source pauses at the server's request.
type watchdog struct {
	timer  *time.Timer
	cancel context.CancelCauseFunc
	cause  atomic.Pointer[error]
	busy   atomic.Bool
	rests  atomic.Pointer[func() bool]
}

// busyGrace is how much time the server gets after the reflector was busy or its source paused.
const busyGrace = 10 * time.Second

func startWatchdog(ctx context.Context, after time.Duration, cause error) (context.Context, *watchdog) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watchdog{cancel: cancel}
	w.cause.Store(&cause)
	ready := make(chan struct{})
	w.timer = time.AfterFunc(after, func() {
		<-ready
		if rests := w.rests.Load(); w.busy.Load() || rests != nil && (*rests)() {
			w.timer.Reset(busyGrace)
			return
		}
		cancel(*w.cause.Load())
	})
	close(ready)
	return ctx, w
}

// feed restarts the timer.
func (w *watchdog) feed(after time.Duration) { w.timer.Reset(after) }

// expect restarts the timer with a different cause. If the timer has already fired, it keeps the old cause.
func (w *watchdog) expect(after time.Duration, cause error) {
	w.feed(after)
	w.cause.Store(&cause)
}

// excuse suspends the watchdog while rests returns true.
func (w *watchdog) excuse(rests func() bool) { w.rests.Store(&rests) }

// stop stops the watchdog and cancels its context.
func (w *watchdog) stop() {
	w.timer.Stop()
	w.cancel(context.Canceled)
}
