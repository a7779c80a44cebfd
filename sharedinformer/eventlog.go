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

// mailbox holds the events of the log that one handler has still to hear. It has two forms: a
// cursor holds on to the log itself, a coalescer keeps one entry per object.
type mailbox interface {
	// offer tells of a segment that has been appended. It is called under
	// core.join.
	offer(s *segment)

	// next returns the next events, or a mark that stands before them, or neither. It
	// is called when what it returned before has been heard.
	next() (events []event, mark *segment)

	// ack counts one event of next, in their order: the call about it has returned.
	ack()

	// current returns the first event of next that has not been acknowledged; nil if there is
	// none. It may be called by anybody.
	current() *event

	// claimResync reports whether a resync may be put into the log for this handler.
	// Resyncs must not pile up before one that takes longer than their period:
	// changes would come ever later.
	claimResync() bool

	// endResync ends a claim: the handler has heard the whole resync.
	endResync()

	// position returns up to which place of the log all has been heard; 0 where that is
	// not known.
	position() uint64

	// stats returns the figures for the status.
	stats() mailboxStats

	// clear drops what the handler has still to hear, and what is offered afterwards
	// too. It may be called by anybody. While the handler is running, what next returned
	// last is kept: a call about it may never return.
	clear(running bool)
}

// mailboxStats is what a mailbox holds and has done.
type mailboxStats struct {
	pending   int    // events that have not been heard to the end
	delivered uint64 // events that have been heard
	merged    uint64 // events that need not be heard any more
}

// cursor is a mailbox that is a place in the log. It holds every segment from there
// on.
type cursor struct {
	log *eventLog

	delivering atomic.Pointer[batch] // what next returned last; nil while there is nothing
	after      atomic.Pointer[link]  // what follows them; nil once cleared
	start      uint64                // how many events the log had before
	acked      atomic.Uint64         // those, and the events that have been heard
	resyncing  atomic.Bool           // a resync is in the log, or is being told
}

// newCursor returns a cursor at the end of the log. It is called under
// core.join.
func newCursor(log *eventLog) *cursor {
	c := &cursor{log: log, start: log.total.Load()}
	c.after.Store(log.end)
	c.acked.Store(c.start)
	return c
}

// offer has nothing to do: the log holds s.
func (c *cursor) offer(*segment) {}

func (c *cursor) next() (events []event, mark *segment) {
	if c.delivering.Load() != nil {
		c.delivering.Store(nil)
	}
	for {
		after := c.after.Load()
		if after == nil {
			return nil, nil
		}
		s := after.next.Load()
		if s == nil || !c.after.CompareAndSwap(after, s.after) {
			return nil, nil
		}
		if s.synced || s.resync.wantedBy(c) {
			return nil, s
		}
		if s.batch != nil {
			c.delivering.Store(s.batch)
			return s.events, nil
		}
	}
}

func (c *cursor) ack() { c.acked.Add(1) }

// current finds the event by the number of acknowledged ones, so that no code need note it.
func (c *cursor) current() *event {
	b := c.delivering.Load()
	if b == nil {
		return nil
	}
	if n := c.acked.Load() - b.first; n < uint64(len(b.events)) {
		return &b.events[n]
	}
	return nil
}

func (c *cursor) claimResync() bool { return c.resyncing.CompareAndSwap(false, true) }

func (c *cursor) endResync() { c.resyncing.Store(false) }

func (c *cursor) position() uint64 { return c.acked.Load() }

func (c *cursor) stats() mailboxStats {
	passed := c.acked.Load() // before total, which it never passes
	held := mailboxStats{delivered: passed - c.start}
	if c.after.Load() != nil {
		held.pending = int(c.log.total.Load() - passed)
	}
	return held
}

// clear lets go of the log.
func (c *cursor) clear(running bool) {
	c.after.Store(nil)
	if !running {
		c.delivering.Store(nil)
	}
}
