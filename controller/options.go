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

// The defaults of Options.
const (
	DefaultConcurrency = 1
	DefaultPatience    = 10 * time.Second
)

// InitialPriority is the priority in the queue of requests that nothing but an
// initial list or a resync asks for. Others have priority 0 and are handed out
// first, within the fairness of the queue: one request in FairEvery is the one
// that has waited longest, whatever its priority (L30).
const InitialPriority = -100

// SlowReconcile is how long a reconcile may take before the log and Controller.Unfinished
// name it. Options.Timeout ends one that honours its context.
const SlowReconcile = 5 * time.Second

// Options configure a Controller. The zero value works.
type Options struct {
	// Concurrency is how many requests are reconciled at the same time. Default
	// DefaultConcurrency.
	Concurrency int

	// Timeout, if not 0, ends the context of each reconcile after this time.
	Timeout time.Duration

	// RateLimiter says how long a request waits after a failure. It belongs to
	// this controller alone. Default workqueue.NewExponential with its defaults:
	// 5 ms, doubled each time, up to 5 min, for each request by itself.
	RateLimiter workqueue.RateLimiter[Request]

	// FairEvery is that of workqueue.Options.
	FairEvery int

	// QueueMetrics is Metrics of workqueue.Options. Package metrics has one
	// for Prometheus.
	QueueMetrics workqueue.MetricsProvider

	// Metrics measures reconciles. Package metrics has one for
	// Prometheus.
	Metrics MetricsProvider

	// Patience is how long a request whose last reconcile wrote something
	// through a Client is kept from being reconciled again while the cache has
	// not seen that write. Then it is reconciled all the same, and counted in
	// Status.Stale; a watch that has told nothing meanwhile is taken for deaf, and opened
	// again. Default DefaultPatience; negative means not to wait.
	Patience time.Duration

	// Resync, if not 0, asks that often for a reconcile of every object of every
	// source, with InitialPriority, so that changes go before. Each source has a
	// period of its own, up to a tenth longer or shorter. It comes from the cache:
	// the server is not asked. Predicates such as GenerationChanged drop it. One
	// that is due while the source is still busy with the one before is left out
	// (L11).
	Resync time.Duration

	// CrashOnPanic lets a panic of the reconciler end the process after it was
	// reported.
	CrashOnPanic bool

	// Flight is the recorder of what happens to requests. Nil is the process's,
	// flight.Process.
	Flight *flight.Recorder

	// Logger hears of failures, of sources that are waited for, and of when the
	// first reconcile may begin. Nil is silent.
	Logger *slog.Logger
}

// complete checks the options and fills in the defaults.
func (o *Options) complete() error {
	switch {
	case o.Concurrency < 0:
		return fmt.Errorf("option Concurrency is %d: want 1 or more, or 0 for the default of %d", o.Concurrency, DefaultConcurrency)
	case o.Timeout < 0:
		return fmt.Errorf("option Timeout is %s: want more than 0, or 0 for none", o.Timeout)
	case o.Resync < 0:
		return fmt.Errorf("option Resync is %s: want more than 0, or 0 for none", o.Resync)
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

// core is the part of a controller that all of its runs share.
type core struct {
	name       string
	reconciler Reconciler
	opts       Options
	count      counters
	metrics    *guardedMetrics // nil if there are none
	track      *flight.Track
}

// notReady returns the error of a controller that is in a state other than Running and waits
// for sources for the given reasons.
func (c *core) notReady(state State, why []error) error {
	if state != Waiting || len(why) == 0 {
		return fmt.Errorf("controller %s: %w: it is %s", c.name, ErrWaiting, state)
	}
	return fmt.Errorf("controller %s: %w for %w", c.name, ErrWaiting, errors.Join(why...))
}

// counters are what a controller counts over all its runs.
type counters struct {
	successes, requeues, delays atomic.Uint64 // at the reconciler's request
	errors, terminals           atomic.Uint64 // terminals count as errors too
	panics, timeouts            atomic.Uint64 // both count as errors too
	ownWrites                   ownwrites.Counts
	elsewhere, held             atomic.Uint64
	active                      atomic.Int64
	failure                     atomic.Pointer[Failure]
}

// Errors of the making and the life of a controller.
var (
	// ErrRunning: Run was called while the controller runs.
	ErrRunning = errors.New("it runs already")
	// ErrNoSource: Run was called before Watch: nothing would ever ask for a
	// reconcile. One whose sources all come later begins with a Channel.
	ErrNoSource = errors.New("it has no source: call Watch before Run, with For of the kind to reconcile")
	// ErrWaiting: the controller reconciles nothing, because a source is not
	// synced. The error that wraps it says which and why.
	ErrWaiting = errors.New("waiting")
)
