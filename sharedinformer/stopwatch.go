package sharedinformer

import (
	"sync/atomic"
	"time"
)

// stopwatch finds the longest of many calls. It does not read the clock on every call, because that would
// take longer than a fast call. It measures laps of one call, then two, then four, up to lapCalls. When a lap
// has lasted lapTime, an alarm ends it after the call in progress. The whole lap is attributed to that call,
// and the next laps are short again.
type stopwatch struct {
	made    time.Time // earlier than any call
	began   time.Time // start of the lap; zero while stopped
	calls   int       // calls in this lap
	length  int       // size of the lap, in calls
	exact   bool      // each lap is one call
	slowest atomic.Int64
	since   atomic.Int64 // began, for other goroutines: 1 + nanoseconds since made; 0 while stopped
	alarm   *time.Timer  // for laps of more than one call; nil until the first
	late    atomic.Bool  // the alarm went off
}

const (
	lapCalls = 64
	// lapTime limits the measurement error, which is the time taken by the fast calls before a slow one in
	// the same lap.
	lapTime = time.Millisecond
)

// start must be called before each call.
func (w *stopwatch) start() {
	if w.began.IsZero() {
		w.begin(time.Now())
	}
}

// lap must be called after each call. It returns the lap that ended with the call, if any.
func (w *stopwatch) lap() (done lap) {
	if w.calls++; w.calls < w.length && !w.late.Load() {
		return done
	}
	now := time.Now()
	done = w.note(now)
	w.begin(now)
	return done
}

// lap describes one or more consecutive calls. It is empty if no lap ended.
type lap struct {
	ended time.Time
	took  time.Duration
	calls int
}

func (w *stopwatch) begin(now time.Time) {
	w.began = now
	w.since.Store(int64(now.Sub(w.made)) + 1)
	switch {
	case w.length < 2:
	case w.alarm == nil:
		w.alarm = time.AfterFunc(lapTime, func() { w.late.Store(true) })
	default:
		w.alarm.Reset(lapTime)
	}
}

// note ends the lap.
func (w *stopwatch) note(now time.Time) lap {
	w.stopAlarm()
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

// stopAlarm stops the alarm. If it goes off at the same moment, the next lap ends too early, which is
// harmless.
func (w *stopwatch) stopAlarm() {
	if w.alarm != nil {
		w.alarm.Stop()
	}
	w.late.Store(false)
}

// stop ends the lap before a pause and returns it.
func (w *stopwatch) stop() (done lap) {
	if w.calls > 0 {
		done = w.note(time.Now())
	}
	w.stopAlarm()
	w.length = 0 // a handler that is rarely called needs no alarm
	w.began = time.Time{}
	w.since.Store(0)
	return done
}

// longest returns the longest call so far. It is safe for concurrent use.
func (w *stopwatch) longest() time.Duration { return time.Duration(w.slowest.Load()) }

// on reports whether a call is in progress. It is safe for concurrent use.
func (w *stopwatch) on() bool { return w.since.Load() != 0 }

// running returns the duration of the call in progress, or 0. It is safe for concurrent use.
func (w *stopwatch) running() time.Duration {
	if since := w.since.Load(); since != 0 {
		return time.Since(w.made) - time.Duration(since-1)
	}
	return 0
}
