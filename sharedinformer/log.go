package sharedinformer

import (
	"sync/atomic"

	"github.com/millrace-dev/millrace/indexer"
)

// segment is one piece of the log: the events of a batch, or one of two marks.
// Its content never changes once it is in the log.
type segment struct {
	events []event
	batch  *batch  // the events again; set by append
	synced bool    // mark: the initial list ends here
	resync *resync // mark: tell these handlers of these objects
	after  *link
}

// batch is a run of events. It is apart from the segment, so that a handler that does
// not return from a call holds its events, and not all that follow.
type batch struct {
	events []event
	first  uint64 // how many events the log had before them
}

// link is where the next segment will be found. It is apart from the segment
// before it, so that a cursor that waits for the next one does not hold the last: after
// an initial list, that is an event for each object.
type link struct{ next atomic.Pointer[segment] }

// resync is the state of the cache at one point of the log, for those handlers
// that asked.
type resync struct {
	objects indexer.View
	targets map[mailbox]struct{}
}

// wantedBy reports whether r is for the handler of m. A nil r is for nobody.
func (r *resync) wantedBy(m mailbox) bool {
	if r == nil {
		return false
	}
	_, wanted := r.targets[m]
	return wanted
}

// eventLog is what the informer appends to. It holds only its end; each cursor holds
// what it has not passed.
type eventLog struct {
	end   *link         // guarded by core.join
	total atomic.Uint64 // events ever appended
}

func newLog() *eventLog {
	return &eventLog{end: new(link)}
}

// append puts s behind all others.
func (l *eventLog) append(s *segment) {
	if len(s.events) > 0 {
		s.batch = &batch{events: s.events, first: l.total.Load()}
		l.total.Add(uint64(len(s.events)))
	}
	s.after = new(link)
	l.end.next.Store(s)
	l.end = s.after
}
