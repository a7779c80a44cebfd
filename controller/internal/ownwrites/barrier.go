package ownwrites

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-dev/millrace/internal/throttle"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
)

// Request mirrors controller.Request, so each converts to the other.
type Request struct {
	object.Key
	Cluster string
}

// String returns the key as users write it, prefixed with the cluster if there is one.
func (r Request) String() string {
	if r.Cluster == "" {
		return object.FormatKey(r.Key)
	}
	return r.Cluster + ":" + object.FormatKey(r.Key)
}

// Barrier holds requests back until the caches have seen the writes of their last reconcile.
//
// Wrote notes the writes of a reconcile. When the queue hands the request out again, the caches have
// nearly always seen all of them, and the note is dropped. Otherwise the request is parked: the worker
// takes another one, and the note waits in the list of the first lagging cache. When that cache has
// caught up, the note moves to the next lagging one, and after the last the request is queued again. A
// parked request stays parked even if the queue hands it out.
type Barrier struct {
	ctx   context.Context
	opts  Options
	tasks sync.WaitGroup // the timers of parked requests and the goroutines of waitlists

	mu        sync.Mutex // guards the fields below; held while caches are read and requests are queued
	notes     map[Request]*note
	order     []*note // ordered by when to check them; some are no longer in notes
	count     int     // parked notes
	waitlists map[cache]*waitlist
	closed    bool // no more parking

	unanswered throttle.Log // logs requests that stopped waiting
}

// Options configure a Barrier.
type Options struct {
	// Controller is the controller's name, for messages.
	Controller string
	// Patience is how long to wait for a cache.
	Patience time.Duration
	// Again queues a request that no longer has to wait.
	Again  func(Request)
	Counts *Counts
	Logger *slog.Logger
}

// Counts are cumulative over all runs of a controller.
type Counts struct {
	Parked atomic.Uint64 // times that a request was parked
	Stale  atomic.Uint64 // times that a request was released with a lagging cache
}

// New returns a Barrier that parks requests until ctx is done.
func New(ctx context.Context, opts Options) *Barrier {
	return &Barrier{ctx: ctx, opts: opts, notes: make(map[Request]*note), waitlists: make(map[cache]*waitlist)}
}

// MostNotes is the number of notes above which notes whose patience has expired are dropped. A note
// takes a few hundred bytes.
const MostNotes = 1000

// errImpatient means that Options.Patience has expired.
var errImpatient = errors.New("the controller's patience is over")

// note holds the writes of the last reconcile of one request. Barrier.mu guards the fields from writes
// on.
type note struct {
	req    Request
	writes []Write
	until  time.Time // end of the patience
	look   time.Time // when to check whether it is still needed

	parked bool
	timer  *time.Timer // set while parked; fires at until
	in     *waitlist   // the waitlist it is in; nil while it moves
	index  int         // its index there
}

// lagging returns the first write that its cache has not seen, or nil if there is none. It drops the
// writes before it.
func (n *note) lagging() *Write {
	for len(n.writes) > 0 {
		if !n.writes[0].seen() {
			return &n.writes[0]
		}
		n.writes = n.writes[1:]
	}
	return nil
}

// Wrote notes the writes of a reconcile of req. It also checks notes whose requests did not return
// within the patience. It drops those that the caches have caught up with, and keeps the others for
// another period, because their requests would be reconciled too early.
//
// A cache may lag forever, for example if its kind is forbidden, while requests with new names keep
// coming. So apart from the notes of the last period, at most MostNotes are kept; beyond that, the
// oldest ones whose patience has expired are dropped. This breaks no guarantee, since their requests
// would be reconciled at once anyway; they are just not counted as stale.
func (b *Barrier) Wrote(req Request, all *Writes) {
	writes := all.list()
	if len(writes) == 0 {
		return
	}
	until := time.Now().Add(b.opts.Patience)
	for n := range writes {
		writes[n].heard = writes[n].cache.heard(writes[n].about.Namespace)
	}
	n := &note{req: req, writes: writes, until: until, look: until}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.notes[req] = n
	b.order = append(b.order, n)
	if len(b.order) > 2*len(b.notes) { // most were dropped when their requests came again
		b.order = slices.DeleteFunc(b.order, func(n *note) bool { return b.notes[n.req] != n })
	}
	now := time.Now()
	if until.Before(now) {
		until = now // the patience expired before parking began
	}
	for left := len(b.order); left > 0 && b.order[0].look.Before(now); left-- {
		old := b.order[0]
		b.order[0] = nil
		b.order = b.order[1:]
		switch {
		case b.notes[old.req] != old || old.parked:
		case old.lagging() == nil, len(b.notes) > MostNotes:
			delete(b.notes, old.req)
		default:
			old.look = until
			b.order = append(b.order, old)
		}
	}
}

// Notes returns the number of notes, so tests can check the limit.
func (b *Barrier) Notes() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(len(b.notes), len(b.order))
}

// Parked returns the number of parked requests.
func (b *Barrier) Parked() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.count
}

// Park reports whether req was handed out too early. If so, it parks req and queues it again when the
// caches have caught up or the patience has expired.
func (b *Barrier) Park(req Request) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.notes[req]
	switch {
	case n == nil:
		return false
	case n.parked:
		return true
	case n.lagging() == nil:
		delete(b.notes, req)
		return false
	case !time.Now().Before(n.until):
		delete(b.notes, req)
		b.opts.Counts.Stale.Add(1)
		return false
	case b.closed:
		return true // it will be dropped with the queue
	}
	n.parked = true
	b.count++
	b.opts.Counts.Parked.Add(1)
	b.tasks.Add(1) // for the timer
	n.timer = time.AfterFunc(time.Until(n.until), func() {
		defer b.tasks.Done()
		b.giveUp(n, errImpatient)
	})
	b.await(n)
	return true
}

// await puts a note into the list of the first lagging cache, or queues its request if no cache lags.
// The caller holds mu.
func (b *Barrier) await(n *note) {
	for {
		w := n.lagging()
		if w == nil {
			b.unpark(n)
			return
		}
		l := b.waitlists[w.cache]
		if l == nil {
			l = &waitlist{barrier: b, cache: w.cache}
			b.waitlists[w.cache] = l
		}
		l.add(n)
		if !l.watched {
			l.watched = true
			b.tasks.Go(l.watch) // it checks before it waits
			return
		}
		if !w.seen() {
			return // each later change of the cache wakes the goroutine
		}
		l.remove(n)
	}
}

// unpark queues a parked request. The caller holds mu.
func (b *Barrier) unpark(n *note) {
	if n.timer.Stop() {
		b.tasks.Done()
	}
	n.parked = false
	b.count--
	if b.notes[n.req] == n {
		delete(b.notes, n.req)
	}
	b.opts.Again(n.req)
}

// giveUp queues a parked request although a cache still lags.
func (b *Barrier) giveUp(n *note, why error) {
	b.mu.Lock()
	if !n.parked || b.ctx.Err() != nil {
		b.mu.Unlock()
		return
	}
	if n.in != nil {
		n.in.remove(n)
	}
	b.unpark(n)
	var behind string
	w := n.lagging()
	if w != nil {
		behind = w.String()
	}
	b.mu.Unlock()
	name, patience := b.opts.Controller, b.opts.Patience
	if w != nil && w.due() && errors.Is(why, errImpatient) {
		w.cache.reconnect(w.about.Namespace, w.heard, patience, fmt.Errorf("%w: it did not deliver %s, and the controller %s has waited %s", reflector.ErrDeaf, w, name, patience))
	}
	b.opts.Counts.Stale.Add(1)
	b.unanswered.Do(func(more int) {
		b.opts.Logger.Warn("the cache has not seen a write in time; reconciling anyway",
			"controller", name, "request", n.req.String(), "write", behind, "err", why, "more", more)
	})
}

// Close stops the timers of parked requests and waits for the goroutines. Call it after the context
// given to New is done.
func (b *Barrier) Close() {
	b.mu.Lock()
	b.closed = true
	for _, n := range b.notes {
		if n.parked && n.timer.Stop() {
			b.tasks.Done()
		}
	}
	b.mu.Unlock()
	b.tasks.Wait()
}

// Parked is a request that waits for the caches to see its writes.
type Parked struct {
	Request Request
	Until   time.Time // when it is reconciled even if the cache still lags
	Write   string    // the first write that its cache has not seen
}

// Contents returns at most n parked requests, ordered by when their wait ends.
func (b *Barrier) Contents(n int) (all []Parked) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.count == 0 {
		return nil
	}
	for req, one := range b.notes {
		if !one.parked {
			continue
		}
		parked := Parked{Request: req, Until: one.until}
		if len(one.writes) > 0 {
			parked.Write = one.writes[0].String()
		}
		all = append(all, parked)
	}
	slices.SortFunc(all, func(a, b Parked) int {
		return cmp.Or(a.Until.Compare(b.Until), cmp.Compare(a.Request.String(), b.Request.String()))
	})
	return all[:min(n, len(all))]
}
