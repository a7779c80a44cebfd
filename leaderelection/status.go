package leaderelection

import (
	"errors"
	"fmt"
	"time"

	"github.com/millrace-dev/millrace/internal/lease"
	"github.com/millrace-dev/millrace/object"
)

// Status is an election seen from here at one moment.
type Status struct {
	Lease    object.Key
	Identity string // ours

	Leading bool      // the work runs
	Holder  string    // who holds the lease, as last seen; empty for nobody
	Token   int64     // of the holder's term
	Since   time.Time // when it was seen that the term began; local time
	Renewed time.Time // when the lease was last seen to change or, leading, when the last renewal was sent; local time

	Lost *Failure // why the lease was lost while the work still runs, the last reason if there were two; nil when it was not

	Attempts int      // failures since the last success; 0 means that all is well
	Failure  *Failure // the last one ever, nil if there was none
}

// Failure is trouble with the server.
type Failure = lease.Failure

// Status returns the election as it is now.
func (e *Elector) Status() Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.status
	s.Attempts, s.Failure = e.trouble.State()
	return s
}

// Check fails when the work still runs although another candidate may lead: when the
// lease was seen to be another's, and LeaseDuration after the last renewal. Only the
// end of the process helps then, and a health endpoint brings it about.
func (e *Elector) Check() error {
	s := e.Status()
	switch over := time.Since(s.Renewed) - e.opts.LeaseDuration; {
	case !s.Leading:
		return nil
	case s.Lost != nil && errors.Is(s.Lost.Err, errTaken):
		return fmt.Errorf("leader election: the lease %s was %w %s ago and the work has not stopped", s.Lease, s.Lost.Err, time.Since(s.Lost.When).Round(time.Second))
	case over > 0:
		return fmt.Errorf("leader election: the lease %s ran out %s ago and the work has not stopped", s.Lease, over.Round(time.Second))
	}
	return nil
}

// update changes the status, and reports whether another term began by it.
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
