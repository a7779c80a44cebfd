package sharedinformer

import (
	"sync/atomic"

	"github.com/millrace-dev/millrace/indexer"
)

// segment is one element of the log: a batch of events, or a mark. It is immutable once in the log.
type segment struct {
	events []event
	batch  *batch  // the same events; set by append
	synced bool    // mark: the initial list ends here
	resync *resync // mark: deliver these objects to these handlers
	after  *link
}

// batch is a run of events. It is separate from the segment so that a handler blocked in a call retains only
// its own events, not everything appended after them.
type batch struct {
	events []event
	first  uint64 // number of events in the log before these
}

// link points to the next segment. It is separate from the previous segment so that a waiting cursor does not
// retain that segment, which after an initial list contains an event for every object.
type link struct{ next atomic.Pointer[segment] }

// resync is the state of the cache at one point in the log, to be delivered to the handlers that are due.
type resync struct {
	objects indexer.View
	targets map[mailbox]struct{}
}

// wantedBy reports whether m's handler is a target of r, which may be nil.
func (r *resync) wantedBy(m mailbox) bool {
	if r == nil {
		return false
	}
	_, wanted := r.targets[m]
	return wanted
}

// eventLog is the log of all events. It references only the end of the log; each cursor keeps alive the
// segments it has not passed yet.
type eventLog struct {
	end   *link         // guarded by core.join
	total atomic.Uint64 // events ever appended
}

func newLog() *eventLog {
	return &eventLog{end: new(link)}
}

// append adds s to the end of the log.
func (l *eventLog) append(s *segment) {
	if len(s.events) > 0 {
		s.batch = &batch{events: s.events, first: l.total.Load()}
		l.total.Add(uint64(len(s.events)))
	}
	s.after = new(link)
	l.end.next.Store(s)
	l.end = s.after
}

// mailbox contains the events that one handler has not received yet. There are two kinds: a cursor refers to
// the log itself, a coalescer keeps one entry per object.
type mailbox interface {
	// offer hands over a segment that was appended to the log. The caller must hold core.join.
	offer(s *segment)

	// next returns the next events or the mark that precedes them. It returns neither if nothing is pending.
	// It is called after its previous result has been delivered.
	next() (events []event, mark *segment)

	// ack records that the handler is done with one of the events returned by next. Events are acknowledged
	// in order.
	ack()

	// current returns the first unacknowledged event from next, or nil. It is safe for concurrent use.
	current() *event

	// claimResync reports whether a resync may be appended for this handler. If a resync takes longer than
	// its period, subsequent ones are skipped, because otherwise changes would fall further and further
	// behind.
	claimResync() bool

	// endResync ends the claim once the whole resync has been delivered.
	endResync()

	// position returns the number of log events delivered so far, or 0 if unknown.
	position() uint64

	// stats returns the statistics shown in the status.
	stats() mailboxStats

	// clear drops undelivered events and anything offered later. It is safe for concurrent use. If running is
	// true, it keeps the last result of next, because the call with it may never return.
	clear(running bool)
}

// mailboxStats are the statistics of a mailbox.
type mailboxStats struct {
	pending   int    // events not delivered yet
	delivered uint64 // events delivered
	merged    uint64 // events eliminated by merging
}

// cursor is a mailbox that is just a position in the log. It retains every segment after that position.
type cursor struct {
	log *eventLog

	delivering atomic.Pointer[batch] // the last result of next; nil if there is none
	after      atomic.Pointer[link]  // link after those events; nil once cleared
	start      uint64                // number of events in the log before these
	acked      atomic.Uint64         // start plus the number of delivered events
	resyncing  atomic.Bool           // a resync is in the log or being delivered
}

// newCursor returns a cursor at the end of the log. The caller must hold core.join.
func newCursor(log *eventLog) *cursor {
	c := &cursor{log: log, start: log.total.Load()}
	c.after.Store(log.end)
	c.acked.Store(c.start)
	return c
}

// offer does nothing, because s is already in the log.
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

// current derives the event from the number of acknowledged events, so the event itself is not recorded.
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
	passed := c.acked.Load() // loaded before total, so that it never exceeds total
	held := mailboxStats{delivered: passed - c.start}
	if c.after.Load() != nil {
		held.pending = int(c.log.total.Load() - passed)
	}
	return held
}

// clear releases the log.
func (c *cursor) clear(running bool) {
	c.after.Store(nil)
	if !running {
		c.delivering.Store(nil)
	}
}
