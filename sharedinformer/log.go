package sharedinformer

import (
	"sync/atomic"

	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/object"
)

// segment is one link of the log: the events of a batch, or one of two marks.
// Its content never changes once it is linked.
type segment[T object.Object] struct {
	events []Event[T]
	synced bool       // mark: the initial list ends here
	resync *resync[T] // mark: tell these handlers of these objects
	next   atomic.Pointer[segment[T]]
}

// resync is the state of the cache at one point of the log, for those handlers
// that asked.
type resync[T object.Object] struct {
	objects indexer.View[T]
	targets map[*Registration[T]]struct{}
}

// eventLog is what the informer appends to. It holds only the last link;
// cursors hold what they have not passed.
type eventLog[T object.Object] struct {
	tail  *segment[T]   // guarded by Informer.join
	total atomic.Uint64 // events ever appended
}

func newLog[T object.Object]() *eventLog[T] {
	return &eventLog[T]{tail: &segment[T]{}}
}

// append links s behind all others.
func (l *eventLog[T]) append(s *segment[T]) {
	l.total.Add(uint64(len(s.events)))
	l.tail.next.Store(s)
	l.tail = s
}

// cursor is a place in the log.
type cursor[T object.Object] struct {
	at    *segment[T]
	index int // of the next event in at
}

// next returns the next event. At a mark it returns the segment instead, once.
func (c *cursor[T]) next() (e *Event[T], mark *segment[T]) {
	for {
		if c.index < len(c.at.events) {
			e = &c.at.events[c.index]
			c.index++
			return e, nil
		}
		following := c.at.next.Load()
		if following == nil {
			return nil, nil
		}
		c.at, c.index = following, 0
		if following.synced || following.resync != nil {
			return nil, following
		}
	}
}
