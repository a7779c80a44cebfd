package sharedinformer

import (
	"sync/atomic"
)

// cursor is a mailbox that is a place in the log. It holds every segment from there
// on.
type cursor struct {
	log *eventLog

	hand      atomic.Pointer[batch] // what next returned last; nil while there is nothing
	after     atomic.Pointer[joint] // what follows them; nil once cleared
	joined    uint64                // how many events the log had before
	passed    atomic.Uint64         // those, and the events that have been heard
	resyncing atomic.Bool           // a resync is in the log, or is being told
}

// newCursor returns a cursor at the end of the log. It is called under
// core.join.
func newCursor(log *eventLog) *cursor {
	c := &cursor{log: log, joined: log.total.Load()}
	c.after.Store(log.end)
	c.passed.Store(c.joined)
	return c
}

// offer has nothing to do: the log holds s.
func (c *cursor) offer(*segment) {}

func (c *cursor) next() (events []event, mark *segment) {
	if c.hand.Load() != nil {
		c.hand.Store(nil)
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
			c.hand.Store(s.batch)
			return s.events, nil
		}
	}
}

func (c *cursor) heard() { c.passed.Add(1) }

// telling finds the event by what has been heard, so that nobody need note it.
func (c *cursor) telling() *event {
	b := c.hand.Load()
	if b == nil {
		return nil
	}
	if n := c.passed.Load() - b.first; n < uint64(len(b.events)) {
		return &b.events[n]
	}
	return nil
}

func (c *cursor) claimResync() bool { return c.resyncing.CompareAndSwap(false, true) }

func (c *cursor) resynced() { c.resyncing.Store(false) }

func (c *cursor) position() uint64 { return c.passed.Load() }

func (c *cursor) load() load {
	passed := c.passed.Load() // before total, which it never passes
	held := load{delivered: passed - c.joined}
	if c.after.Load() != nil {
		held.pending = int(c.log.total.Load() - passed)
	}
	return held
}

// clear lets go of the log.
func (c *cursor) clear(running bool) {
	c.after.Store(nil)
	if !running {
		c.hand.Store(nil)
	}
}
