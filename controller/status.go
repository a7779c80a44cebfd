package controller

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/internal/throttle"
	"github.com/millrace-dev/millrace/workqueue"
)

// State is where a controller is in its life.
type State uint8

const (
	// Idle: Run has not been called yet.
	Idle State = iota
	// Waiting: for sources to sync. Nothing is reconciled.
	Waiting
	// Running: requests are reconciled.
	Running
	// Stopping: for reconciles to end.
	Stopping
	// Stopped: Run has returned. It may be called again.
	Stopped
)

// String names the state as in its documentation.
func (s State) String() string {
	switch s {
	case Idle:
		return "Idle"
	case Waiting:
		return "Waiting"
	case Running:
		return "Running"
	case Stopping:
		return "Stopping"
	case Stopped:
		return "Stopped"
	}
	return "Unknown"
}

// MarshalText lets a Status print readably as JSON.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Failure is a reconcile that ended with an error.
type Failure struct {
	Request  Request
	Err      error
	Attempts int // failures in a row of this request, this one included
	Last     time.Time
}

// Error names the request, the reason, how often and when.
func (f *Failure) Error() string {
	reason, ago := failure.Reason(f.Err), time.Since(f.Last).Round(time.Second)
	if f.Attempts == 1 {
		return fmt.Sprintf("%s: %s (1 attempt, %s ago)", f.Request, reason, ago)
	}
	return fmt.Sprintf("%s: %s (%d attempts, last %s ago)", f.Request, reason, f.Attempts, ago)
}

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// MarshalText lets a Status print readably as JSON.
func (f *Failure) MarshalText() ([]byte, error) { return []byte(f.Error()), nil }

// Status is a controller seen from outside at one moment. Counters begin at 0
// with the controller, and go on when it is run again.
type Status struct {
	Name    string
	State   State
	Since   time.Time // when it came there
	Sources []SourceStatus
	Queue   workqueue.Status // zero while the controller does not run

	Concurrency int // reconciles that may be in progress
	Active      int // reconciles that are

	Successes     uint64 // reconciles that asked for nothing more
	Requeues      uint64 // that asked for another with back-off
	RequeuesAfter uint64 // that asked for another after a time
	Errors        uint64 // that failed, the next three included
	Terminal      uint64 // with a terminal error
	Panics        uint64 // by panicking
	Timeouts      uint64 // after Options.Timeout

	Parked      int    // requests that wait until the cache has seen their own writes
	ParkedTotal uint64 // how often one had to
	Stale       uint64 // how often one was reconciled though the cache had not; growth means that the watch is behind by more than Options.Patience

	Elsewhere uint64 // requests that were dropped because they are another process's; see Controller.Share
	Held      uint64 // how often one had to wait until the caches held what came with its slot

	Failure *Failure // the last reconcile that failed, nil if there was none
}

// SourceStatus is one source of a controller seen from outside.
type SourceStatus struct {
	Name     string
	Optional bool
	Synced   bool   // what was there when it began has been asked for, or need not be waited for
	Ended    bool   // it will ask for nothing more
	Added    uint64 // requests that it has asked for
	Failures uint64 // of its function, or of its map function
	Failure  error  // the last of them
	Waiting  error  // why it is not synced, also where it is not waited for; nil if it is
}

// MarshalJSON writes the errors as texts, and as null where there is none.
func (s SourceStatus) MarshalJSON() ([]byte, error) {
	type fields SourceStatus
	text := func(err error) *string {
		if err == nil {
			return nil
		}
		return new(err.Error())
	}
	return json.Marshal(struct {
		fields
		Failure, Waiting *string
	}{fields(s), text(s.Failure), text(s.Waiting)})
}

// View is a controller as those see it who look at several. Its methods may be called at
// any time, from any goroutine.
type View interface {
	Name() string
	Status() Status
	Contents(n int) Contents
}

// Contents lists requests that a controller has.
type Contents struct {
	workqueue.Contents[Request]

	// Parked requests wait until a cache has seen what was written in their name, those
	// that are given up first at the beginning.
	Parked []Parked
}

// Parked is a request that waits for a write to be seen.
type Parked struct {
	Key   Request
	Until time.Time // when it is reconciled all the same
	Write string    // what has not been seen
}

// MetricsProvider makes the Metrics of each controller. Package metrics has one for
// Prometheus.
type MetricsProvider interface {
	// Register is called once by New, which fails if it panics or calls runtime.Goexit.
	// The view may be used until Metrics.Stopped is called. All but durations is read from
	// the view when it is wanted.
	Register(c View) Metrics
}

// Metrics measures one controller. The workers call it concurrently. A panic or a
// runtime.Goexit is logged and does not harm the controller.
type Metrics interface {
	// Started is called when Run begins. The view is the one that Register received: a
	// controller may run again after it has stopped.
	Started(c View)

	// Stopped is called when Run ends, with the controller's last status. The controller
	// can be freed once the view is dropped here.
	Stopped(last Status)

	// ReconcileTime receives the duration of a reconcile.
	ReconcileTime(d time.Duration)
}

// guardedMetrics calls the Metrics of a user. It logs a panic or a runtime.Goexit, so that
// neither ends a worker or blocks the end of Run. Nil does nothing.
type guardedMetrics struct {
	metrics Metrics
	log     *slog.Logger
	reports throttle.Log
}

func (m *guardedMetrics) started(c View)      { m.call(func() { m.metrics.Started(c) }) }
func (m *guardedMetrics) stopped(last Status) { m.call(func() { m.metrics.Stopped(last) }) }

func (m *guardedMetrics) reconcileTime(d time.Duration) {
	m.call(func() { m.metrics.ReconcileTime(d) })
}

func (m *guardedMetrics) call(tell func()) {
	if m == nil {
		return
	}
	err := failure.Apart("the metrics", func() error { tell(); return nil })
	if err != nil {
		m.reports.Do(func(more int) { report(m.log.With("more", more), "the metrics failed", err) })
	}
}
