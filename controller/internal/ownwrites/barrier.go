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

// Request is a controller.Request, which converts to it and back.
type Request struct {
	object.Key
	Cluster string
}

// String writes the key as users do, after the cluster if there is one.
func (r Request) String() string {
	if r.Cluster == "" {
		return object.FormatKey(r.Key)
	}
	return r.Cluster + ":" + object.FormatKey(r.Key)
}

// Barrier keeps requests that must not be reconciled yet, because a cache has not
// seen the writes of their last reconcile.
//
// The writes of a reconcile are noted under its request. If the caches have all of them
// when the queue hands the request out again, as they nearly always do, the note is
// dropped. Otherwise the request is parked: the worker takes another, and
// the note waits in the list of the first cache that lags. When that cache has
// caught up, the note moves to the next one that lags, and after the last the
// request is added again. A parked request that is handed out stays parked.
type Barrier struct {
	ctx   context.Context
	opts  Options
	tasks sync.WaitGroup // the timers of parked requests and the goroutines of waitlists

	mu        sync.Mutex // guards all below; caches may be read under it, and requests added again
	notes     map[Request]*note
	order     []*note // by when they are to be looked at, the earliest first; some are no longer in notes
	count     int     // notes that are parked
	waitlists map[cache]*waitlist
	closed    bool // nothing is parked any more

	unanswered throttle.Log // requests that waited in vain
}

// Options configure a Barrier.
type Options struct {
	// Controller is its name, for messages.
	Controller string
	// Patience is how long a cache is waited for.
	Patience time.Duration
	// Again adds a request that need not wait any more to the queue.
	Again  func(Request)
	Counts *Counts
	Logger *slog.Logger
}

// Counts are what a controller counts over all its runs.
type Counts struct {
	Parked atomic.Uint64 // how often a request was parked
	Stale  atomic.Uint64 // how often one was let go though a cache lagged
}

// New returns a Barrier that parks requests until ctx is done.
func New(ctx context.Context, opts Options) *Barrier {
	return &Barrier{ctx: ctx, opts: opts, notes: make(map[Request]*note), waitlists: make(map[cache]*waitlist)}
}

// MostNotes is how many notes there may be before those are dropped whose patience is
// over. A note takes a few hundred bytes.
const MostNotes = 1000

// errImpatient: Options.Patience is over.
var errImpatient = errors.New("the controller's patience is over")

// note has the writes of the last reconcile of one request. The fields from writes on are
// guarded by Barrier.mu.
type note struct {
	req    Request
	writes []Write
	until  time.Time // after which it is not worth waiting for
	look   time.Time // when to see whether it is still needed

	parked bool
	timer  *time.Timer // while parked: ends at until
	in     *waitlist   // where it waits; nil while it moves
	index  int         // there
}

// lagging returns the first of the writes that its cache has not seen, nil if
// there is none. Those before it are forgotten.
func (n *note) lagging() *Write {
	for len(n.writes) > 0 {
		if !n.writes[0].seen() {
			return &n.writes[0]
		}
		n.writes = n.writes[1:]
	}
	return nil
}

// Wrote notes the writes of a reconcile of req. It also drops the notes whose requests did
// not come again in time, if the caches have their writes by now. Other such notes are kept,
// because their requests would be reconciled too early, and are checked again after the same
// time.
//
// A cache may lag for ever, such as one of a forbidden kind, and there may always be new
// names. So there are at most MostNotes notes beside those of one patience; of more, the
// oldest whose patience is over are dropped. No promise is broken: their requests would be
// reconciled at once anyway. They are only not counted as stale any more.
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
	if len(b.order) > 2*len(b.notes) { // most were dropped since, as their requests came again
		b.order = slices.DeleteFunc(b.order, func(n *note) bool { return b.notes[n.req] != n })
	}
	now := time.Now()
	if until.Before(now) {
		until = now // of a patience that was over before it began
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

// Notes returns how many requests have a note of a write, for tests of its bound.
func (b *Barrier) Notes() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(len(b.notes), len(b.order))
}

// Parked returns how many requests are parked.
func (b *Barrier) Parked() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.count
}

// Park reports whether req was handed out too early. If so, it is parked, and added again
// when the caches have caught up or the patience is over.
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
		return true // it would be dropped with the queue
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

// await lets a note wait for the first cache that lags, or adds its request again
// if none does. It is called under mu.
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
			b.tasks.Go(l.watch) // which looks before it waits
			return
		}
		if !w.seen() {
			return // each later change of the cache wakes the goroutine
		}
		l.remove(n)
	}
}

// unpark adds a parked request. It is called under mu.
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

// giveUp adds a parked request although a cache still lags.
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
		w.cache.reconnect(w.about.Namespace, w.heard, patience, fmt.Errorf("%w: %s, for which the controller %s has waited %s", reflector.ErrDeaf, w, name, patience))
	}
	b.opts.Counts.Stale.Add(1)
	b.unanswered.Do(func(more int) {
		b.opts.Logger.Warn("the cache has not seen a write in time; reconciling all the same",
			"controller", name, "request", n.req.String(), "write", behind, "err", why, "more", more)
	})
}

// Close stops the timers of parked requests and waits for the goroutines. Call it when the
// context given to New is done.
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

// Parked is a request that waits for a write to be seen.
type Parked struct {
	Request Request
	Until   time.Time // when it is reconciled all the same
	Write   string    // the first write that its cache has not seen
}

// Contents returns at most n parked requests, ordered by when they are given up.
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
