package sharedinformer

import (
	"container/list"
	"sync"

	"github.com/millrace-dev/millrace/object"
)

// coalescer is the mailbox of a handler whose lag policy is Coalesce. It keeps at most one entry per object,
// ordered by each object's first change.
//
//	pending    + event   = pending
//	Add        + Update  = Add of the newer state
//	Add        + Delete  = nothing: the handler never saw the object
//	Update     + Update  = Update from the older old to the newer new
//	Update     + Delete  = Delete from the older old
//	Delete     + Add     = Delete and Add: two calls, one entry
//	Delete-Add + Update  = Delete and Add of the newer state
//	Delete-Add + Delete  = the first Delete; the second if only that one is a real deletion
//	Resync     + any     = any
type coalescer struct {
	mu         sync.Mutex // guards the fields below; never held while calling other code
	order      list.List  // contains *pending
	byKey      map[object.Key]*list.Element
	waiting    int     // number of events awaiting delivery
	delivering []event // another event is currently being delivered
	delivered  uint64  // events delivered
	merged     uint64  // events eliminated by merging
	closed     bool
}

// pending is one entry: an event, two events (both), or a mark.
type pending struct {
	key         object.Key
	first, then event
	both        bool
	mark        *segment
}

func newCoalescer() *coalescer {
	return &coalescer{byKey: make(map[object.Key]*list.Element)}
}

// offer adds the events and marks in s.
func (c *coalescer) offer(s *segment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	for i := range s.events {
		c.add(s.events[i])
	}
	if s.synced {
		c.order.PushBack(&pending{mark: &segment{synced: true}}) // make a copy, because s would retain everything appended after it
	}
	if !s.resync.wantedBy(c) {
		return
	}
	for o := range s.resync.objects.All() {
		if _, changed := c.byKey[object.KeyOf(o)]; !changed {
			c.push(object.KeyOf(o), event{Type: Resync, Object: o})
		}
	}
}

func (c *coalescer) push(key object.Key, e event) {
	c.byKey[key] = c.order.PushBack(&pending{key: key, first: e})
	c.waiting++
}

func (c *coalescer) add(e event) {
	key := object.KeyOf(e.Object)
	element, ok := c.byKey[key]
	if !ok {
		c.push(key, e)
		return
	}
	p := element.Value.(*pending)
	c.merged++
	last := &p.first
	if p.both {
		last = &p.then
	}
	switch {
	case last.Type == Resync:
		*last = e
	case last.Type == Delete: // only an Add can follow
		p.then, p.both = e, true
		c.merged--
		c.waiting++
	case e.Type == Update:
		last.Object = e.Object
		last.Received, last.DecodedAfter, last.QueuedAfter, last.AppliedAfter = e.Received, e.DecodedAfter, e.QueuedAfter, e.AppliedAfter
	case p.both: // Delete-Add + Delete
		if p.first.Moved && !e.Moved && p.first.Object.GetUID() == e.Object.GetUID() {
			if e.Old = p.first.Old; e.Old == nil {
				e.Old = p.first.Object
			}
			p.first = e
		}
		p.then, p.both = event{}, false
		c.merged++
		c.waiting--
	case last.Type == Add: // Add + Delete
		c.order.Remove(element)
		delete(c.byKey, key)
		c.merged++
		c.waiting--
	default: // Update + Delete
		e.Old = p.first.Old
		p.first = e
	}
}

// next removes and returns either one event or a mark. It returns neither if c is empty.
func (c *coalescer) next() (events []event, mark *segment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	front := c.order.Front()
	if front == nil {
		return nil, nil
	}
	p := front.Value.(*pending)
	if p.mark != nil {
		c.order.Remove(front)
		return nil, p.mark
	}
	c.waiting--
	c.delivering = []event{p.first}
	if p.both {
		p.first, p.then, p.both = p.then, event{}, false
		return c.delivering, nil
	}
	c.order.Remove(front)
	delete(c.byKey, p.key)
	return c.delivering, nil
}

func (c *coalescer) ack() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.delivering = nil
	c.delivered++
}

func (c *coalescer) current() *event {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.delivering == nil {
		return nil
	}
	return &c.delivering[0]
}

// claimResync always succeeds, because a resync is merged with the previous one.
func (c *coalescer) claimResync() bool { return true }

func (c *coalescer) endResync() {}

// position returns 0 (unknown), because a merged event covers several positions in the log.
func (c *coalescer) position() uint64 { return 0 }

func (c *coalescer) stats() mailboxStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := mailboxStats{pending: c.waiting, delivered: c.delivered, merged: c.merged}
	if c.delivering != nil {
		held.pending++
	}
	return held
}

func (c *coalescer) clear(running bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !running {
		c.delivering = nil
	}
	c.order.Init()
	clear(c.byKey)
	c.waiting, c.closed = 0, true
}
