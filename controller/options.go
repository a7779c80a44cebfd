package controller

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/millrace-dev/millrace/controller/internal/ownwrites"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/workqueue"
)

// Defaults of Options.
const (
	DefaultConcurrency = 1
	DefaultPatience    = 10 * time.Second
)

// InitialPriority is the queue priority of requests caused only by an initial list or a resync. Other
// requests have priority 0 and are handed out first. However, every FairEvery-th request handed out is the
// one that has waited longest, regardless of priority (L30).
const InitialPriority = -100

// SlowReconcile is how long a reconcile may run before it is logged and listed by
// [Controller.Unfinished]. Set Options.Timeout to interrupt slow reconciles; they must honor their context.
const SlowReconcile = 5 * time.Second

// Options configure a Controller. The zero value works.
type Options struct {
	// Concurrency is the number of requests reconciled in parallel. Default DefaultConcurrency.
	Concurrency int

	// Timeout, if not 0, is the timeout of each reconcile's context.
	Timeout time.Duration

	// RateLimiter determines the delay before a failed request is retried. Controllers must not share one.
	// The default is workqueue.NewExponential with its defaults: 5 ms, doubling with each failure of the
	// request, up to 5 min.
	RateLimiter workqueue.RateLimiter[Request]

	// FairEvery configures the queue; see workqueue.Options.FairEvery.
	FairEvery int

	// QueueMetrics receives the queue's metrics; see workqueue.Options.Metrics. Package metrics implements
	// it for Prometheus.
	QueueMetrics workqueue.MetricsProvider

	// Metrics receives reconcile metrics. Package metrics implements it for Prometheus.
	Metrics MetricsProvider

	// Patience is how long a request waits for the cache to see the writes that its last reconcile made
	// through a Client. After that, the request is reconciled with the stale cache and counted in
	// Status.Stale, and the watch is reopened if it has delivered nothing since the write. The default is
	// DefaultPatience, 10 s; a negative value disables waiting.
	Patience time.Duration

	// Resync, if not 0, is how often every object of every source is reconciled. Resyncs have
	// InitialPriority, so live changes go first. Each source's interval is jittered by up to 10 %. Resyncs
	// read the cache and make no requests to the server. Predicates such as GenerationChanged drop them. A
	// resync is skipped if the source is still busy with the previous one (L11).
	Resync time.Duration

	// CrashOnPanic makes the process crash after a panic in the reconciler has been reported.
	CrashOnPanic bool

	// Flight records each request's history. The default is flight.Process.
	Flight *flight.Recorder

	// Logger logs failures, the sources that the controller is waiting for, and a line when reconciling
	// starts. If it is nil, nothing is logged.
	Logger *slog.Logger
}

// complete validates the options and fills in the defaults.
func (o *Options) complete() error {
	switch {
	case o.Concurrency < 0:
		return fmt.Errorf("option Concurrency is %d: want 1 or more, or 0 for the default of %d", o.Concurrency, DefaultConcurrency)
	case o.Timeout < 0:
		return fmt.Errorf("option Timeout is %s: want a positive duration, or 0 for none", o.Timeout)
	case o.Resync < 0:
		return fmt.Errorf("option Resync is %s: want a positive duration, or 0 for none", o.Resync)
	}
	if o.Concurrency == 0 {
		o.Concurrency = DefaultConcurrency
	}
	if o.Patience == 0 {
		o.Patience = DefaultPatience
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

// core is the state of a controller that outlives a run.
type core struct {
	name       string
	reconciler Reconciler
	opts       Options
	count      counters
	metrics    *guardedMetrics // nil if there are none
	track      *flight.Track
}

// notReady returns the error for a controller that is not Running. why lists the reasons it is waiting for
// sources.
func (c *core) notReady(state State, why []error) error {
	if state != Waiting || len(why) == 0 {
		return fmt.Errorf("controller %s: %w: it is %s", c.name, ErrWaiting, state)
	}
	return fmt.Errorf("controller %s: %w for %w", c.name, ErrWaiting, errors.Join(why...))
}

// counters accumulate over all runs of a controller.
type counters struct {
	successes, requeues, delays atomic.Uint64 // requested by the reconciler
	errors, terminals           atomic.Uint64 // terminals are also counted as errors
	panics, timeouts            atomic.Uint64 // both are also counted as errors
	ownWrites                   ownwrites.Counts
	elsewhere, held             atomic.Uint64
	active                      atomic.Int64
	failure                     atomic.Pointer[Failure]
}

// Errors returned by [New], [Controller.Run] and [Controller.Ready].
var (
	// ErrRunning means that Run was called while the controller was already running.
	ErrRunning = errors.New("it is already running")
	// ErrNoSource means that Run was called before Watch, so nothing would ever be reconciled. If all
	// sources are added later, start with a Channel source.
	ErrNoSource = errors.New("it has no sources: call Watch before Run")
	// ErrWaiting means that the controller is not reconciling yet because a source has not synced. The
	// error that wraps it includes the source and the reason.
	ErrWaiting = errors.New("waiting")
)
