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
	exact   bool      // each lap is one call
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

// lap is called after a call. It returns the lap that ends with it, if one does.
func (w *stopwatch) lap() (done lap) {
	if w.calls++; w.calls < w.length {
		return done
	}
	now := time.Now()
	done = w.note(now)
	w.begin(now)
	return done
}

// lap is some calls, one after the other. It has none where nothing has ended.
type lap struct {
	ended time.Time
	took  time.Duration
	calls int
}

func (w *stopwatch) begin(now time.Time) {
	w.began = now
	w.since.Store(now.UnixNano())
}

// note ends a lap at now.
func (w *stopwatch) note(now time.Time) lap {
	took := now.Sub(w.began)
	done := lap{now, took, w.calls}
	if took > lapTime || w.exact {
		w.length = 1
	} else {
		took /= time.Duration(w.calls)
		w.length = min(2*max(w.length, 1), lapCalls)
	}
	if int64(took) > w.slowest.Load() {
		w.slowest.Store(int64(took))
	}
	w.calls = 0
	return done
}

// stop ends the lap before a pause, and returns it.
func (w *stopwatch) stop() (done lap) {
	if w.calls > 0 {
		done = w.note(time.Now())
	}
	w.began = time.Time{}
	w.since.Store(0)
	return done
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
