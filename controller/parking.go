package controller

import (
	"context"
	"sync"
	"time"

	"github.com/millrace-dev/millrace/workqueue"
)

// write is something that a reconcile wrote.
type write struct {
	seen func() bool // whether the cache has it
	// wait waits until seen is true, or returns why it does not wait any longer.
	wait func(ctx context.Context, seen func() bool) error
}

// parking keeps requests that must not be reconciled yet, because the cache has
// not seen what was written in their name.
//
// What a reconcile wrote is noted under its request. When the request is handed
// out again, and the cache has all of it by then, which is the rule, the note is
// dropped. Otherwise the request is parked: the worker goes on with another, and
// a goroutine, started now, waits for the cache and adds the request again. A
// request that is handed out while it is parked stays so.
type parking struct {
	mu    sync.Mutex // guards all below; what calls a write's functions is done without it
	notes map[Request]*note
	order []*note // by until, the earliest first; some are no longer in notes
	count int     // notes that are parked
}

// note is what was written in the name of one request.
type note struct {
	req    Request
	writes []write
	until  time.Time // after which it is not worth waiting for
	parked bool
}

// seen reports whether the cache has all of it.
func (n *note) seen() bool {
	for _, w := range n.writes {
		if !w.seen() {
			return false
		}
	}
	return true
}

// note keeps what was written in the name of req, and drops what nobody asked for
// in time.
func (p *parking) note(req Request, writes []write, until time.Time) {
	if len(writes) == 0 {
		return
	}
	n := &note{req: req, writes: writes, until: until}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.notes == nil {
		p.notes = make(map[Request]*note)
	}
	p.notes[req] = n
	p.order = append(p.order, n)
	now := time.Now()
	for len(p.order) > 0 && p.order[0].until.Before(now) {
		if old := p.order[0]; p.notes[old.req] == old && !old.parked {
			delete(p.notes, old.req)
		}
		p.order[0] = nil
		p.order = p.order[1:]
	}
}

// of returns what is noted for req, nil if there is nothing.
func (p *parking) of(req Request) *note {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.notes[req]
}

// drop forgets a note, and reports whether nobody had before.
func (p *parking) drop(n *note) (first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.notes[n.req] != n {
		return false
	}
	delete(p.notes, n.req)
	if n.parked {
		p.count--
	}
	return true
}

// enter marks a note as parked, and reports whether it is still there, and whether
// it was not parked before.
func (p *parking) enter(n *note) (there, first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.notes[n.req] != n {
		return false, false
	}
	if n.parked {
		return true, false
	}
	n.parked = true
	p.count++
	return true, true
}

// parked is how many requests are parked.
func (p *parking) parked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

// park reports whether req was handed out too early, and sees to it that it is
// added again in time.
func (s *session) park(req Request) bool {
	n := s.parking.of(req)
	if n == nil {
		return false
	}
	seen := n.seen()
	if !seen && time.Now().Before(n.until) {
		there, first := s.parking.enter(n)
		if first {
			s.controller.count.parked.Add(1)
			s.tasks.Go(func() { s.unpark(n) })
		}
		return there
	}
	if s.parking.drop(n) && !seen {
		s.controller.count.stale.Add(1)
	}
	return false
}

// unpark adds a parked request when the cache has caught up, or when it is not
// worth waiting any longer, unless it was handed out at that very moment.
func (s *session) unpark(n *note) {
	err := s.awaitCache(n)
	if s.ctx.Err() != nil || !s.parking.drop(n) {
		return
	}
	if err != nil {
		s.controller.count.stale.Add(1)
		s.controller.opts.Logger.Warn("the cache has not seen a write in time; reconciling all the same",
			"controller", s.controller.name, "request", n.req.String(), "err", err)
	}
	s.queue.AddWith(workqueue.AddOptions{}, n.req)
}

// awaitCache waits until the cache has all of a note, no longer than it is worth.
func (s *session) awaitCache(n *note) error {
	ctx, cancel := context.WithDeadline(s.ctx, n.until)
	defer cancel()
	for _, w := range n.writes {
		if err := w.wait(ctx, w.seen); err != nil {
			return err
		}
	}
	return nil
}
