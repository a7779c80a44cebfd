package sharedinformer

import (
	"sync/atomic"

	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/object"
)

// segment is one piece of the log: the events of a batch, or one of two marks.
// Its content never changes once it is in the log.
type segment[T object.Object] struct {
	events []Event[T]
	synced bool       // mark: the initial list ends here
	resync *resync[T] // mark: tell these handlers of these objects
	after  *joint[T]
}

// joint is where the next segment will be found. It is apart from the segment
// before it, so that who waits for what comes does not hold what was: after an
// initial list, that is an event for each object.
type joint[T object.Object] struct{ next atomic.Pointer[segment[T]] }

// resync is the state of the cache at one point of the log, for those handlers
// that asked.
type resync[T object.Object] struct {
	objects indexer.View[T]
	targets map[*Registration[T]]struct{}
}

// eventLog is what the informer appends to. It holds only its end; cursors hold
// what they have not passed.
type eventLog[T object.Object] struct {
	end   *joint[T]     // guarded by Informer.join
	total atomic.Uint64 // events ever appended
}

func newLog[T object.Object]() *eventLog[T] {
	return &eventLog[T]{end: new(joint[T])}
}

// append puts s behind all others.
func (l *eventLog[T]) append(s *segment[T]) {
	l.total.Add(uint64(len(s.events)))
	s.after = new(joint[T])
	l.end.next.Store(s)
	l.end = s.after
}

// cursor is a place in the log.
type cursor[T object.Object] struct {
	events []Event[T] // of the segment at hand
	index  int        // of the next of them
	after  *joint[T]  // what follows them
}

// next returns the next event. At a mark it returns the segment instead, once.
func (c *cursor[T]) next() (e *Event[T], mark *segment[T]) {
	for {
		if c.index < len(c.events) {
			e = &c.events[c.index]
			c.index++
			return e, nil
		}
		c.events, c.index = nil, 0
		following := c.after.next.Load()
		if following == nil {
			return nil, nil
		}
		c.events, c.after = following.events, following.after
		if following.synced || following.resync != nil {
			return nil, following
		}
	}
}
