package sharedinformer

import (
	"sync/atomic"
)

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
