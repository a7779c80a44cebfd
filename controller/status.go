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

// State is a controller's lifecycle state.
type State uint8

const (
	// Idle means that Run has not been called yet.
	Idle State = iota
	// Waiting means that some sources have not synced and nothing is reconciled yet.
	Waiting
	// Running means that requests are being reconciled.
	Running
	// Stopping means that Run is waiting for reconciles to finish.
	Stopping
	// Stopped means that Run has returned. It may be called again.
	Stopped
)

// String returns the state's name.
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

// MarshalText encodes the state as its name.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Failure describes a failed reconcile.
type Failure struct {
	Request  Request
	Err      error
	Attempts int // consecutive failures of this request, including this one
	Last     time.Time
}

// Error returns a message with the request, the reason, the number of attempts and the time.
func (f *Failure) Error() string {
	reason, ago := failure.Reason(f.Err), time.Since(f.Last).Round(time.Second)
	if f.Attempts == 1 {
		return fmt.Sprintf("%s: %s (1 attempt, %s ago)", f.Request, reason, ago)
	}
	return fmt.Sprintf("%s: %s (%d attempts, last %s ago)", f.Request, reason, f.Attempts, ago)
}

// Unwrap returns Err.
func (f *Failure) Unwrap() error { return f.Err }

// MarshalText encodes the failure as its message.
func (f *Failure) MarshalText() ([]byte, error) { return []byte(f.Error()), nil }

// Status is a snapshot of a controller. Counters start at 0 and are not reset between runs.
type Status struct {
	Name    string
	State   State
	Since   time.Time // when it entered State
	Sources []SourceStatus
	Queue   workqueue.Status // zero while the controller is not running

	Concurrency int // maximum number of parallel reconciles
	Active      int // reconciles in progress

	Successes     uint64 // reconciles that returned no error and did not ask to be repeated
	Requeues      uint64 // reconciles that asked to be repeated with back-off
	RequeuesAfter uint64 // reconciles that asked to be repeated after a delay
	Errors        uint64 // reconciles that failed; includes the next three
	Terminal      uint64 // failures with a terminal error
	Panics        uint64 // failures because the reconciler panicked
	Timeouts      uint64 // failures because Options.Timeout expired

	Parked      int    // requests waiting for the cache to see their own writes
	ParkedTotal uint64 // number of times a request was parked
	Stale       uint64 // reconciles run before the cache had seen the request's writes; if it grows, the watch lags by more than Options.Patience

	Elsewhere uint64 // requests dropped because they belong to another process; see Controller.Share
	Held      uint64 // number of times a request waited until the caches contained all objects in its slot

	Failure *Failure // the last failed reconcile; nil if there was none
}

// SourceStatus is a snapshot of one of a controller's sources.
type SourceStatus struct {
	Name     string
	Optional bool
	Synced   bool   // requests for all initial objects have been added, or there is no need to wait for them
	Ended    bool   // the source will add no more requests
	Added    uint64 // requests added
	Failures uint64 // failures of the source's function or map function
	Failure  error  // the last failure
	Waiting  error  // why the source is not synced, even if the controller does not wait for it; nil if it is synced
}

// MarshalJSON encodes errors as strings, or null.
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

// View is a read-only view of one controller, for code that monitors several. Its methods may be called
// concurrently at any time.
type View interface {
	Name() string
	Status() Status
	Contents(n int) Contents
}

// Contents lists the requests held by a controller.
type Contents struct {
	workqueue.Contents[Request]

	// Parked lists requests that are waiting for a cache to see their writes, ordered by when they stop
	// waiting.
	Parked []Parked
}

// Parked is a request that is waiting for the cache to see a write.
type Parked struct {
	Key      Request
	Until    time.Time // when the request is reconciled even if the cache still lags
	Write    string    // the first write that the cache has not seen
	Requeues int       // consecutive failures, or -1 if the rate limiter blocks
}

// MetricsProvider creates the Metrics for each controller. Package metrics implements it for Prometheus.
type MetricsProvider interface {
	// Register is called once by New, which fails if Register panics or calls runtime.Goexit. The view may
	// be used until Metrics.Stopped is called. Implementations should read everything except durations from
	// the view when metrics are collected.
	Register(c View) Metrics
}

// Metrics receives the metrics of one controller. The workers call it concurrently. A panic or
// runtime.Goexit in it is logged and does not affect the controller.
type Metrics interface {
	// Started is called when Run starts, with the view passed to Register. A controller may run again after
	// it has stopped.
	Started(c View)

	// Stopped is called at the end of Run, with the final status. The implementation should drop the view,
	// so that the controller can be garbage-collected.
	Stopped(last Status)

	// ReconcileTime is called with the duration of each reconcile.
	ReconcileTime(d time.Duration)
}

// guardedMetrics calls a user's Metrics and logs panics and calls to runtime.Goexit, so that they cannot
// terminate a worker or keep Run from returning. A nil *guardedMetrics does nothing.
type guardedMetrics struct {
	metrics Metrics
	trusted bool
	log     *slog.Logger
	reports throttle.Log
}

func (m *guardedMetrics) started(c View)      { m.call(func() { m.metrics.Started(c) }) }
func (m *guardedMetrics) stopped(last Status) { m.call(func() { m.metrics.Stopped(last) }) }

func (m *guardedMetrics) reconcileTime(d time.Duration) {
	if m != nil && m.trusted {
		m.metrics.ReconcileTime(d)
		return
	}
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
