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

// Request mirrors controller.Request, so the two are convertible.
type Request struct {
	object.Key
	Cluster string
}

// String returns the key in its usual form, prefixed with the cluster if there is one.
func (r Request) String() string {
	if r.Cluster == "" {
		return object.FormatKey(r.Key)
	}
	return r.Cluster + ":" + object.FormatKey(r.Key)
}

// Barrier holds back each request until the caches have seen the writes made by its last reconcile.
//
// Wrote stores the writes made by a reconcile in a note. By the time the queue hands out the request
// again, the caches have nearly always seen all of them, and the note is dropped. Otherwise the request
// is parked: the worker takes another one, and the note joins the waitlist of the first lagging cache.
// Once that cache has caught up, the note moves to the next lagging one; after the last one, the request
// is queued again. If the queue hands out a request that is already parked, it remains parked.
type Barrier struct {
	ctx   context.Context
	opts  Options
	count atomic.Int64   // parked notes; read without mu, which is held while caches are read
	tasks sync.WaitGroup // tracks the timers of parked requests and the waitlists' goroutines

	mu        sync.Mutex // guards the fields below; also held while caches are read and requests are queued
	notes     map[Request]*note
	order     []*note // ordered by check time; includes some that are no longer in notes
	waitlists map[cache]*waitlist
	closed    bool // no more requests are parked

	unanswered throttle.Log // logs requests that stopped waiting
}

// Options configure a Barrier.
type Options struct {
	// Controller is the controller's name, for messages.
	Controller string
	// Patience is how long to wait for a cache.
	Patience time.Duration
	// Again is called to requeue a request that no longer has to wait.
	Again  func(Request)
	Counts *Counts
	Logger *slog.Logger
	// Earlier is what Left returned in the controller's last run.
	Earlier Notes
}

// Notes are the writes that requests still have to wait for.
type Notes []*note

// Counts are cumulative over all runs of a controller.
type Counts struct {
	Parked atomic.Uint64 // number of times a request was parked
	Stale  atomic.Uint64 // number of times a request was released while a cache still lagged
}

// New returns a Barrier that parks requests until ctx is done.
func New(ctx context.Context, opts Options) *Barrier {
	b := &Barrier{ctx: ctx, opts: opts, notes: make(map[Request]*note), order: opts.Earlier, waitlists: make(map[cache]*waitlist)}
	for _, n := range b.order {
		b.notes[n.req] = n
	}
	b.opts.Earlier = nil
	return b
}

// MostNotes is the number of notes beyond which expired notes are dropped. A note takes up a few hundred
// bytes.
const MostNotes = 1000

// errImpatient means that Options.Patience has expired.
var errImpatient = errors.New("the controller's patience has expired")

// note records the writes made by a request's last reconcile. Barrier.mu guards writes and the fields
// below it.
type note struct {
	req    Request
	writes []Write
	until  time.Time // when patience expires
	look   time.Time // when to check whether the note is still needed

	parked bool
	timer  *time.Timer // set while parked; fires at until
	in     *waitlist   // the waitlist it is in; nil while it is being moved
	index  int         // its index there
}

// lagging returns the first write that its cache has not seen yet, or nil if there is none. It drops the
// writes before that one.
func (n *note) lagging() *Write {
	for len(n.writes) > 0 {
		if !n.writes[0].seen() {
			return &n.writes[0]
		}
		n.writes = n.writes[1:]
	}
	return nil
}

// Wrote records the writes made by a reconcile of req. It also checks the notes of requests that were not
// handed out again before their patience expired. If the caches have caught up with a note, it drops the
// note; if not, it keeps the note for another period, because the request would be reconciled too early.
//
// A cache may lag forever, for example if its kind is forbidden, while requests with new names keep
// coming. So apart from notes made during the last period, at most MostNotes are kept; beyond that, the
// oldest expired ones are dropped. This breaks no guarantee, since their requests would be reconciled at
// once anyway; they are just not counted as stale.
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
	if len(b.order) > 2*len(b.notes) { // most were dropped when their requests were handed out again
		b.order = slices.DeleteFunc(b.order, func(n *note) bool { return b.notes[n.req] != n })
	}
	now := time.Now()
	if until.Before(now) {
		until = now // patience expired before the request was parked
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

// Notes returns the number of notes, for tests of the limit.
func (b *Barrier) Notes() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(len(b.notes), len(b.order))
}

// Parked returns the number of parked requests.
func (b *Barrier) Parked() int { return int(b.count.Load()) }

// Park reports whether req was handed out too early. If so, it parks req and requeues it once the caches
// have caught up or patience has expired.
func (b *Barrier) Park(req Request) bool {
	parked, missing := b.park(req)
	if missing != nil {
		b.stale(req, missing, errImpatient)
	}
	return parked
}

// park is Park. If patience has expired, it returns the write that is still missing.
func (b *Barrier) park(req Request) (parked bool, missing *Write) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.notes[req]
	switch {
	case n == nil:
		return false, nil
	case n.parked:
		return true, nil
	}
	w := n.lagging()
	switch {
	case w == nil:
		delete(b.notes, req)
		return false, nil
	case !time.Now().Before(n.until):
		delete(b.notes, req)
		return false, w
	case b.closed:
		return true, nil // req will be dropped along with the queue
	}
	n.parked = true
	b.count.Add(1)
	b.opts.Counts.Parked.Add(1)
	b.tasks.Add(1) // for the timer
	n.timer = time.AfterFunc(time.Until(n.until), func() {
		defer b.tasks.Done()
		b.giveUp(n, errImpatient)
	})
	b.await(n)
	return true, nil
}

// await adds a note to the waitlist of the first lagging cache, or requeues the request if no cache is
// lagging. The caller holds mu.
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
			b.tasks.Go(l.watch) // the goroutine checks the cache before it waits
			return
		}
		if !w.seen() {
			return // every later cache change wakes the goroutine
		}
		l.remove(n)
	}
}

// unpark requeues a parked request. The caller holds mu.
func (b *Barrier) unpark(n *note) {
	if n.timer.Stop() {
		b.tasks.Done()
	}
	n.parked = false
	b.count.Add(-1)
	if b.notes[n.req] == n {
		delete(b.notes, n.req)
	}
	b.opts.Again(n.req)
}

// giveUp requeues a parked request even though a cache still lags.
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
	w := n.lagging() // nil if the write has just arrived
	b.mu.Unlock()
	if w != nil {
		b.stale(n.req, w, why)
	}
}

// stale counts and logs that a request is reconciled although a cache lacks a write. If patience has expired, stale
// reopens the watch that should have delivered the write.
func (b *Barrier) stale(req Request, w *Write, why error) {
	name, patience := b.opts.Controller, b.opts.Patience
	if w.due() && errors.Is(why, errImpatient) {
		w.cache.reconnect(w.about.Namespace, w.heard, patience, fmt.Errorf("%w: it did not deliver %s; controller %s waited %s", reflector.ErrDeaf, w, name, patience))
	}
	b.opts.Counts.Stale.Add(1)
	b.unanswered.Do(func(more int) {
		b.opts.Logger.Warn("the cache has not seen a write in time; reconciling anyway",
			"controller", name, "request", req.String(), "write", w.String(), "err", why, "more", more)
	})
}

// Close stops the timers of parked requests and waits for the goroutines to finish. Call it after the
// context passed to New is done.
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

// Left returns the notes whose patience has not expired, for the controller's next run. Call it after Close, once
// no worker is running.
func (b *Barrier) Left() (left Notes) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for req, n := range b.notes {
		if now.Before(n.until) {
			left = append(left, &note{req: req, writes: n.writes, until: n.until, look: n.until})
		}
	}
	slices.SortFunc(left, func(one, other *note) int { return one.look.Compare(other.look) })
	return left
}

// Parked is a request that is waiting for the caches to see its writes.
type Parked struct {
	Request Request
	Until   time.Time // when the request is reconciled even if the cache still lags
	Write   string    // the first write that its cache has not seen
}

// Contents returns at most n parked requests, ordered by when they stop waiting.
func (b *Barrier) Contents(n int) (all []Parked) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.count.Load() == 0 {
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
