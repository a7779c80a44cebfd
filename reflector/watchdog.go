package reflector

import (
	"context"
	"sync/atomic"
	"time"
)

// watchdog cancels a context with a cause when it is not fed in time. It barks at
// the server alone: while the reflector itself is busy, or the source rests because the
// server has asked it to, it waits.
type watchdog struct {
	timer  *time.Timer
	cancel context.CancelCauseFunc
	cause  atomic.Pointer[error]
	busy   atomic.Bool
	rests  atomic.Pointer[func() bool]
}

// busyGrace is how long the server has after the reflector was busy, or its source has
// rested.
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

// feed starts the time anew.
func (w *watchdog) feed(after time.Duration) { w.timer.Reset(after) }

// expect starts the time anew with another cause. A time that was over before keeps its own.
func (w *watchdog) expect(after time.Duration, cause error) {
	w.feed(after)
	w.cause.Store(&cause)
}

// excuse has the dog wait for as long as rests says so.
func (w *watchdog) excuse(rests func() bool) { w.rests.Store(&rests) }

// stop ends the watch and its context.
func (w *watchdog) stop() {
	w.timer.Stop()
	w.cancel(context.Canceled)
}
