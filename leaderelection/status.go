package leaderelection

import (
	"fmt"
	"time"

	"github.com/millrace-dev/millrace/internal/lease"
	"github.com/millrace-dev/millrace/object"
)

// Status is a snapshot of an election as seen by this candidate.
type Status struct {
	Lease    object.Key
	Identity string // this candidate's identity

	Leading bool      // the work is running
	Holder  string    // the last known holder of the lease; empty if it is free
	Token   int64     // the token of the holder's term
	Since   time.Time // when this candidate first saw the term; local time
	Renewed time.Time // when the lease was last seen changing or, while leading, when the last renewal was sent; local time

	Lost *Failure // why the lease was lost although the work is still running; nil if it was not lost

	Attempts int      // number of failures since the last success
	Failure  *Failure // the last failure; nil if there was none
}

// Failure describes a failed request to the server.
type Failure = lease.Failure

// Status returns a snapshot of the election.
func (e *Elector) Status() Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.status
	s.Attempts, s.Failure = e.trouble.State()
	return s
}

// Check fails if the work is still running although another candidate may be the leader. It does so once
// another candidate is known to hold the lease, the Lease was deleted, or LeaseDuration after the last renewal. Only restarting
// the process helps then, so use Check in a health endpoint.
func (e *Elector) Check() error {
	s := e.Status()
	switch over := time.Since(s.Renewed) - e.opts.LeaseDuration; {
	case !s.Leading:
		return nil
	case s.Lost != nil && final(s.Lost.Err):
		return fmt.Errorf("leader election: the lease %s was %w %s ago and the work has not stopped", s.Lease, s.Lost.Err, time.Since(s.Lost.When).Round(time.Second))
	case over > 0:
		return fmt.Errorf("leader election: the lease %s expired %s ago and the work has not stopped", s.Lease, over.Round(time.Second))
	}
	return nil
}

// update updates the status and reports whether a new term has started.
func (e *Elector) update(change func(*Status)) (newTerm bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.status
	change(&e.status)
	if newTerm = e.status.Holder != before.Holder || e.status.Token != before.Token; newTerm {
		e.status.Since = time.Now()
	}
	return newTerm
}
