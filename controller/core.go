package controller

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/millrace-dev/millrace/controller/internal/ownwrites"
	"github.com/millrace-dev/millrace/flight"
)

// Errors of the making and the life of a controller.
var (
	// ErrRunning: Run was called while it runs, of a controller or of Events.
	ErrRunning = errors.New("it runs already")
	// ErrNoSource: Run was called before Watch: nothing would ever ask for a
	// reconcile. One whose sources all come later begins with a Channel.
	ErrNoSource = errors.New("it has no source: call Watch before Run, with For of the kind to reconcile")
	// ErrWaiting: the controller reconciles nothing, because a source is not
	// synced. The error that wraps it says which and why.
	ErrWaiting = errors.New("waiting")
)

// core is the part of a controller that stays the same while runs come and go.
type core struct {
	name       string
	reconciler Reconciler
	opts       Options
	count      counters
	metrics    *guardedMetrics // nil if there are none
	track      *flight.Track
}

// notReady returns the error of a controller in a state other than Running, where why has
// the reasons of the sources that are waited for.
func (c *core) notReady(state State, why []error) error {
	if state != Waiting || len(why) == 0 {
		return fmt.Errorf("controller %s: %w: it is %s", c.name, ErrWaiting, state)
	}
	return fmt.Errorf("controller %s: %w for %w", c.name, ErrWaiting, errors.Join(why...))
}

// counters are what a controller counts over all its runs.
type counters struct {
	successes, requeues, delays atomic.Uint64 // by what the reconciler asked for
	errors, terminals           atomic.Uint64 // terminals count as errors too
	panics, timeouts            atomic.Uint64 // both count as errors too
	ownWrites                   ownwrites.Counts
	elsewhere, held             atomic.Uint64
	active                      atomic.Int64
	failure                     atomic.Pointer[Failure]
}
