package controller

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/millrace-dev/millrace/internal/throttle"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/workqueue"
)

// parking keeps requests that must not be reconciled yet, because a cache has not
// seen what was written in their name.
//
// What a reconcile wrote is noted under its request. When the request is handed
// out again, and the caches have all of it by then, which is the rule, the note is
// dropped. Otherwise the request is parked: the worker goes on with another, and
// the note waits in the backlog of the first cache that lags. When that cache has
// caught up, the note moves on to the next one that lags, and after the last the
// request is added again. A request that is handed out while it is parked stays so.
type parking struct {
	mu       sync.Mutex // guards all below; caches may be read under it
	notes    map[Request]*note
	order    []*note // by when they are to be looked at, the earliest first; some are no longer in notes
	count    int     // notes that are parked
	backlogs map[cache]*backlog
	closed   bool // the session ends: nothing is parked any more

	unanswered throttle.Log // requests that waited in vain
}

// mostNotes is how many notes there may be before those are dropped whose patience is
// over. A note takes a few hundred bytes.
const mostNotes = 1000

// errImpatient: Options.Patience is over.
var errImpatient = errors.New("the controller's patience is over")

// note is what was written in the name of one request. What follows writes is
// guarded by parking.mu.
type note struct {
	req    Request
	writes []write
	until  time.Time // after which it is not worth waiting for
	look   time.Time // when to see whether it is still needed

	parked bool
	timer  *time.Timer // while parked: ends at until
	in     *backlog    // where it waits; nil while it moves
	index  int         // there
}

// lagging returns the first of the writes that its cache has not seen, nil where
// there is none. Those before it are forgotten.
func (n *note) lagging() *write {
	for len(n.writes) > 0 {
		if !n.writes[0].seen() {
			return &n.writes[0]
		}
		n.writes = n.writes[1:]
	}
	return nil
}

// note keeps what was written in the name of req, and drops what nobody asked for
// in time and the caches have by now. What they have not is kept, since whoever asks for
// it later gets it too early: it is looked at again when as much time has passed.
//
// A cache may lag for ever, as one does whose kind is forbidden, and there may be ever
// new names. So there are at most mostNotes notes beside those of one patience: of more,
// those that are looked at again are dropped, the oldest first. Nothing that is promised is
// lost: their patience is over, so their requests would be reconciled at once anyway. They
// are only not counted as stale any more.
func (p *parking) note(req Request, writes []write, until time.Time) {
	if len(writes) == 0 {
		return
	}
	for n := range writes {
		writes[n].heard = writes[n].cache.heard(writes[n].about.Namespace)
	}
	n := &note{req: req, writes: writes, until: until, look: until}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.notes == nil {
		p.notes = make(map[Request]*note)
	}
	p.notes[req] = n
	p.order = append(p.order, n)
	if len(p.order) > 2*len(p.notes) { // most were dropped since, as their requests came again
		p.order = slices.DeleteFunc(p.order, func(n *note) bool { return p.notes[n.req] != n })
	}
	now := time.Now()
	if until.Before(now) {
		until = now // of a patience that was over before it began
	}
	for left := len(p.order); left > 0 && p.order[0].look.Before(now); left-- {
		old := p.order[0]
		p.order[0] = nil
		p.order = p.order[1:]
		switch {
		case p.notes[old.req] != old || old.parked:
		case old.lagging() == nil, len(p.notes) > mostNotes:
			delete(p.notes, old.req)
		default:
			old.look = until
			p.order = append(p.order, old)
		}
	}
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
	p := &s.parking
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.notes[req]
	switch {
	case n == nil:
		return false
	case n.parked:
		return true
	case n.lagging() == nil:
		delete(p.notes, req)
		return false
	case !time.Now().Before(n.until):
		delete(p.notes, req)
		s.controller.count.stale.Add(1)
		return false
	case p.closed:
		return true // it would be dropped with the queue
	}
	n.parked = true
	p.count++
	s.controller.count.parked.Add(1)
	s.tasks.Add(1) // for the timer
	n.timer = time.AfterFunc(time.Until(n.until), func() {
		defer s.tasks.Done()
		s.giveUp(n, errImpatient)
	})
	s.await(n)
	return true
}

// await lets a note wait for the first cache that lags, or adds its request again
// where none does. It is called under parking.mu.
func (s *session) await(n *note) {
	for {
		w := n.lagging()
		if w == nil {
			s.unpark(n)
			return
		}
		p := &s.parking
		b := p.backlogs[w.cache]
		if b == nil {
			if p.backlogs == nil {
				p.backlogs = make(map[cache]*backlog)
			}
			b = &backlog{session: s, cache: w.cache}
			p.backlogs[w.cache] = b
		}
		b.add(n)
		if !b.watched {
			b.watched = true
			s.tasks.Go(b.watch) // which looks before it waits
			return
		}
		if !w.seen() {
			return // the goroutine is woken by whatever changes from now on
		}
		b.remove(n)
	}
}

// unpark adds a parked request. It is called under parking.mu.
func (s *session) unpark(n *note) {
	p := &s.parking
	if n.timer.Stop() {
		s.tasks.Done()
	}
	n.parked = false
	p.count--
	if p.notes[n.req] == n {
		delete(p.notes, n.req)
	}
	s.again(n.req)
}

// again adds a request that was put aside, with the priority that it had.
func (s *session) again(req Request) {
	s.queue.AddWith(workqueue.AddOptions{Priority: s.causes.priority(req)}, req)
}

// giveUp adds a parked request although a cache still lags.
func (s *session) giveUp(n *note, why error) {
	p := &s.parking
	p.mu.Lock()
	if !n.parked || s.ctx.Err() != nil {
		p.mu.Unlock()
		return
	}
	if n.in != nil {
		n.in.remove(n)
	}
	s.unpark(n)
	var behind string
	w := n.lagging()
	if w != nil {
		behind = w.String()
	}
	p.mu.Unlock()
	c := s.controller
	if patience := c.opts.Patience; w != nil && w.due() && errors.Is(why, errImpatient) {
		w.cache.reconnect(w.about.Namespace, w.heard, patience, fmt.Errorf("%w: %s, for which the controller %s has waited %s", reflector.ErrDeaf, w, c.name, patience))
	}
	c.count.stale.Add(1)
	p.unanswered.Do(func(more int) {
		c.opts.Logger.Warn("the cache has not seen a write in time; reconciling all the same",
			"controller", c.name, "request", n.req.String(), "write", behind, "err", why, "more", more)
	})
}

// close stops the timers of what is parked, so that the session can end.
func (s *session) close() {
	p := &s.parking
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, n := range p.notes {
		if n.parked && n.timer.Stop() {
			s.tasks.Done()
		}
	}
}
