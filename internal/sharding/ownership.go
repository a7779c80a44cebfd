// Package sharding is how informers follow a share of the work (package shard), and how reconcilers
// wait while a slot changes hands. It knows neither of them: an informer passes Hooks.
package sharding

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/shard"
)

// Ownership is which objects an informer owns: those in the slots of its share, which come and go.
//
// Each change by which slots come is a gain. The cache holds a slot when a list that began after
// the gain of its term has been applied. Until then it may have objects of the slot that are older
// than the writes of the owner before (S04).
type Ownership struct {
	shard.Scope
	hooks  Hooks
	asking chan struct{} // a token while the share is asked

	mu   sync.Mutex // orders changes of last, and what Hooks.Lost and Gains say of them; nothing of a user's is called under it
	last atomic.Pointer[Terms]
}

// Hooks is what an informer does for its Ownership. They may be called from any goroutine.
type Hooks struct {
	CallShare   func(do func()) error     // calls methods of the share, which is a user's
	ShareFailed func(error)               // is told why such a call failed
	Lost        func(shard.Slots)         // has the cache drop the objects of slots; it must return at once
	Gained      func()                    // has the reflectors list anew
	MayHave     func(object.Version) bool // whether the cache has an object, or may come to have it
}

// How often a share is asked that changes without end: so often in a row, and then at that
// distance. One that failed is asked again after a while.
const (
	asksInARow = 100
	asksEvery  = 10 * time.Millisecond
	afterFault = time.Second
)

// New returns the ownership of a scope that does not own everything. It asks the share nothing yet.
func New(scope shard.Scope, hooks Hooks) *Ownership {
	o := &Ownership{Scope: scope, hooks: hooks, asking: make(chan struct{}, 1)}
	outset := make(chan struct{})
	close(outset)
	o.last.Store(&Terms{key: scope.Key, gains: 1, changed: outset})
	return o
}

// Terms is which slots an informer owns, and since when. It does not change.
type Terms struct {
	key     shard.Key
	slots   shard.Slots
	changed <-chan struct{} // closed when there are other terms
	gains   uint64
	since   []uint64 // the gain by which the term of each slot began; 0 where it is not owned
	epochs  []uint64
}

// Since returns the gain by which the slot of an object came, and 0 where it is not owned.
func (t *Terms) Since(o object.Head) uint64 { return t.SinceOf(t.key.Hash(o)) }

// SinceOf is Since of the slot of a hash.
func (t *Terms) SinceOf(hash uint64) uint64 {
	if len(t.since) == 0 {
		return 0
	}
	return t.since[shard.SlotOf(hash, len(t.since))]
}

// stale reports whether there are other terms.
func (t *Terms) stale() bool {
	select {
	case <-t.changed:
		return true
	default:
		return false
	}
}

// nothing returns the terms that follow where the share cannot say what is owned.
func (t *Terms) nothing() *Terms {
	again := make(chan struct{})
	time.AfterFunc(afterFault, func() { close(again) })
	return &Terms{key: t.key, gains: t.gains, changed: again}
}

// next returns the terms that follow.
func (t *Terms) next(share shard.Share) *Terms {
	next := &Terms{key: t.key, gains: t.gains}
	next.slots, next.changed = share.Owned()
	total := next.slots.Total()
	next.since, next.epochs = make([]uint64, total), make([]uint64, total)
	for _, slot := range next.slots.All() {
		term, known := share.Term(slot)
		next.epochs[slot] = term.Epoch
		if known && total == len(t.since) && t.since[slot] > 0 && t.epochs[slot] == term.Epoch {
			next.since[slot] = t.since[slot]
			continue
		}
		next.gains = t.gains + 1
		next.since[slot] = next.gains
	}
	return next
}

// lost returns the slots of t whose terms have ended by those that follow. One that came back
// in between is known by its epoch.
func (t *Terms) lost(next *Terms) shard.Slots {
	if t.slots.Total() != next.slots.Total() {
		return t.slots
	}
	var lost []int
	for _, slot := range t.slots.All() {
		if t.since[slot] != next.since[slot] {
			lost = append(lost, slot)
		}
	}
	return shard.NewSlots(t.slots.Total(), lost...)
}

// Last returns the terms that were found last, and asks nobody.
func (o *Ownership) Last() *Terms { return o.last.Load() }

// Terms returns the terms as the share has them now.
func (o *Ownership) Terms() *Terms {
	t := o.Last()
	if !t.stale() {
		return t
	}
	o.asking <- struct{}{}
	before := o.Last()
	t = before
	var err error
	if before.stale() {
		if err = o.hooks.CallShare(func() { t = before.next(o.Share) }); err != nil {
			t = before.nothing()
		}
	}
	o.mu.Lock()
	o.last.Store(t)
	if lost := before.lost(t); lost.Len() > 0 { // it is told before any list that begins in these terms
		o.hooks.Lost(lost)
	}
	o.mu.Unlock()
	<-o.asking
	if err != nil {
		o.hooks.ShareFailed(fmt.Errorf("%w; nothing is held until it says what is ours", err))
	}
	if t.gains != before.gains {
		o.hooks.Gained()
	}
	return t
}

// Gains implements reflector.Ownership.
func (o *Ownership) Gains() uint64 {
	o.Terms()
	o.mu.Lock() // until what was lost is told
	defer o.mu.Unlock()
	return o.Last().gains
}

// Follow looks at every change until ctx is done. Others look too, and need not wait for it.
func (o *Ownership) Follow(ctx context.Context) {
	var asks time.Time // how much of its asking it has had
	for {
		t, now := o.Terms(), time.Now()
		if asks.Before(now) {
			asks = now
		}
		asks = asks.Add(asksEvery)
		if rest := asks.Sub(now) - asksInARow*asksEvery; rest > 0 {
			wait := time.NewTimer(rest)
			select {
			case <-wait.C:
			case <-ctx.Done():
			}
			wait.Stop()
		}
		select {
		case <-t.changed:
		case <-ctx.Done():
			return
		}
	}
}
