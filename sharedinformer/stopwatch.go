package sharedinformer

import (
	"sync/atomic"
	"time"
)

// stopwatch finds the longest of many calls without reading the clock at each:
// where calls are quick, that would cost more than the call. It measures laps
// of one call, then two, then four, up to lapCalls; a lap that took longer than
// lapTime is put down to one slow call in it, which makes the next laps short
// again.
type stopwatch struct {
	began   time.Time // of the lap; zero while stopped
	calls   int       // in this lap
	length  int       // of this lap, in calls
	slowest atomic.Int64
	since   atomic.Int64 // began, for others to read: Unix time in nanoseconds, 0 while stopped
}

const (
	lapCalls = 64
	// lapTime is how wrong a measure may be: by the quick calls of the lap in
	// which a slow one came.
	lapTime = time.Millisecond
)

// start is called before a call.
func (w *stopwatch) start() {
	if w.began.IsZero() {
		w.begin(time.Now())
	}
}

// lap is called after a call.
func (w *stopwatch) lap() {
	if w.calls++; w.calls < w.length {
		return
	}
	now := time.Now()
	w.note(now)
	w.begin(now)
}

func (w *stopwatch) begin(now time.Time) {
	w.began = now
	w.since.Store(now.UnixNano())
}

// note ends a lap at now.
func (w *stopwatch) note(now time.Time) {
	took := now.Sub(w.began)
	if took > lapTime {
		w.length = 1
	} else {
		took /= time.Duration(w.calls)
		w.length = min(2*max(w.length, 1), lapCalls)
	}
	if int64(took) > w.slowest.Load() {
		w.slowest.Store(int64(took))
	}
	w.calls = 0
}

// stop ends the lap before a pause.
func (w *stopwatch) stop() {
	if w.calls > 0 {
		w.note(time.Now())
	}
	w.began = time.Time{}
	w.since.Store(0)
}

// longest is the longest call so far. It may be called by anybody.
func (w *stopwatch) longest() time.Duration { return time.Duration(w.slowest.Load()) }

// on reports whether a call is in progress. It may be called by anybody.
func (w *stopwatch) on() bool { return w.since.Load() != 0 }

// running is how long the call in progress has taken so far; 0 where there is none. It
// may be called by anybody.
func (w *stopwatch) running() time.Duration {
	if since := w.since.Load(); since != 0 {
		return time.Duration(time.Now().UnixNano() - since)
	}
	return 0
}
