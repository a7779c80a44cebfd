package sharedinformer

import (
	"time"

	"github.com/millrace-dev/millrace/reflector"
)

// Status is an informer seen from outside at one moment.
type Status struct {
	Reflector reflector.Status

	Synced  bool   // a whole initial list is in the cache
	RV      string // the cache is complete up to here; behind Reflector.RV by what is queued
	Objects int    // cached objects

	QueueDepth  int           // deltas not applied yet; more than a handful for long means that index functions or the machine are too slow
	QueueAge    time.Duration // how long the oldest of them has waited
	QueueMerged uint64        // deltas that compaction folded

	// Failure is the last one of an index function or of the mutation
	// detector. Those of the reflector and of handlers stand there.
	Failure *reflector.Failure

	Handlers []HandlerStatus // in the order in which they joined
}

// HandlerStatus is one registration seen from outside.
type HandlerStatus struct {
	Name   string
	Place  string // file:line of AddHandler
	Lag    Lag
	Synced bool

	Pending int           // events that it has not heard to the end; growth means that it is slower than the changes
	Behind  time.Duration // age of the event that it is being told of; 0 when it has heard all

	Delivered uint64 // calls that have returned
	Coalesced uint64 // events that it did not need to hear, with Lag Coalesce
	Panics    uint64 // calls that panicked
	Errors    uint64 // calls that returned an error

	Slowest time.Duration      // the longest call; quick ones are measured by the dozen, so that it may be off by a millisecond
	Failure *reflector.Failure // the last panic or error
}

// Status returns the informer as it is now. The parts are read one after the
// other, so that they may differ by what happened meanwhile.
func (i *Informer[T]) Status() Status {
	cache := i.Cache()
	s := Status{
		Reflector: i.reflector.Status(),
		Synced:    i.HasSynced(), RV: cache.RV(), Objects: cache.Len(),
		QueueDepth: i.queue.Len(), QueueMerged: i.queue.Merged(),
		Failure: i.failure.Load(),
	}
	if oldest := i.queue.Oldest(); !oldest.IsZero() {
		s.QueueAge = time.Since(oldest)
	}
	for _, r := range *i.handlers.Load() {
		s.Handlers = append(s.Handlers, r.Status())
	}
	return s
}

// Status returns the registration as it is now.
func (r *Registration[T]) Status() HandlerStatus {
	s := HandlerStatus{
		Name: r.Name(), Place: r.place, Lag: r.opts.Lag, Synced: r.HasSynced(),
		Delivered: r.others.Load(), Panics: r.panics.Load(), Errors: r.errors.Load(),
		Slowest: r.watch.longest(), Failure: r.failure.Load(),
	}
	telling := r.telling.Load()
	s.Pending = int(r.runLeft.Load())
	if r.box != nil {
		waiting, merged := r.box.held()
		s.Pending += waiting
		s.Coalesced = merged
		if telling != nil && telling != r.runMark {
			s.Pending++
		}
	} else {
		passed := r.passed.Load() // before total, which it never passes
		s.Pending += int(r.informer.log.total.Load() - passed)
		s.Delivered += passed - r.joined
	}
	if telling != nil && !telling.Received.IsZero() {
		s.Behind = time.Since(telling.Received)
	}
	return s
}

// MarshalText lets a status print readably as JSON.
func (l Lag) MarshalText() ([]byte, error) {
	if l == Coalesce {
		return []byte("Coalesce"), nil
	}
	return []byte("Unbounded"), nil
}
