package controller

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/millrace-dev/millrace/failure"
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

// Status returns the controller as it is now. The parts are read one after the
// other, so that they may differ by what happened meanwhile.
func (c *Controller) Status() Status {
	c.mu.Lock()
	s := Status{Name: c.name, State: c.state, Since: c.since}
	session, sources := c.session, append([]*subscription(nil), c.sources...)
	c.mu.Unlock()
	if session != nil {
		s.Queue = session.queue.Status()
		s.Parked = session.barrier.Parked()
	}
	for _, source := range sources {
		s.Sources = append(s.Sources, source.status())
	}
	n := &c.count
	s.Concurrency, s.Active = c.opts.Concurrency, int(n.active.Load())
	s.Successes, s.Requeues, s.RequeuesAfter = n.successes.Load(), n.requeues.Load(), n.delays.Load()
	s.Errors, s.Terminal, s.Panics, s.Timeouts = n.errors.Load(), n.terminals.Load(), n.panics.Load(), n.timeouts.Load()
	s.ParkedTotal, s.Stale = n.ownWrites.Parked.Load(), n.ownWrites.Stale.Load()
	s.Elsewhere, s.Held = n.elsewhere.Load(), n.held.Load()
	s.Failure = n.failure.Load()
	return s
}

func (s *subscription) status() SourceStatus {
	status := SourceStatus{
		Name: s.source.String(), Optional: s.source.optional,
		Synced: s.synced.Load(), Ended: s.finished.Load(),
		Added: s.added.Load(), Failures: s.failures.Load(), Waiting: s.unsynced(),
	}
	if failure := s.failure.Load(); failure != nil {
		status.Failure = *failure
	}
	return status
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

// Contents returns at most n requests of each kind, to look into a controller that is
// stuck. While it does not run it has none. It takes time in the order of n, and of
// how many are parked.
func (c *Controller) Contents(n int) (contents Contents) {
	c.mu.Lock()
	session := c.session
	c.mu.Unlock()
	if session != nil {
		contents.Contents = session.queue.Contents(n)
		for _, parked := range session.barrier.Contents(n) {
			contents.Parked = append(contents.Parked, Parked{Key: Request(parked.Request), Until: parked.Until, Write: parked.Write})
		}
	}
	return contents
}
