// Package sharding restricts informers to a share of the work (package shard), and makes reconcilers wait
// while a slot is handed over. It imports neither of them: an informer passes in its [Hooks].
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

// Ownership tracks which objects an informer owns, namely those in the slots of its share. Slots may be
// gained and lost at any time.
//
// Each change that adds slots is a gain. The cache holds a slot once it has applied a list that started
// after the gain that began the slot's current term. Before that, it may contain objects in the slot
// that are older than the previous owner's writes (S04).
type Ownership struct {
	shard.Scope
	hooks  Hooks
	asking chan struct{} // contains a token while the share is being called

	mu   sync.Mutex // serializes changes to last, Hooks.Lost and Gains; no user code is called while it is held
	last atomic.Pointer[Terms]
}

// Hooks contains the informer's functions that an [Ownership] calls. It may call them from any goroutine.
type Hooks struct {
	CallShare   func(do func()) error     // calls methods of the share, which may be user code
	ShareFailed func(error)               // receives the error from such a call
	Lost        func(shard.Slots)         // drops the objects in slots from the cache; must return immediately
	Gained      func()                    // makes the reflectors list again
	MayHave     func(object.Version) bool // reports whether the cache contains an object, or may receive it
}

// A share that keeps changing is called asksInARow times without a pause, and then every asksEvery. A
// share that failed is called again after afterFault.
const (
	asksInARow = 100
	asksEvery  = 10 * time.Millisecond
	afterFault = time.Second
)

// New returns an Ownership for a sharded scope. It does not call the share yet.
func New(scope shard.Scope, hooks Hooks) *Ownership {
	o := &Ownership{Scope: scope, hooks: hooks, asking: make(chan struct{}, 1)}
	outset := make(chan struct{})
	close(outset)
	o.last.Store(&Terms{key: scope.Key, gains: 1, changed: outset})
	return o
}

// Terms contains the slots that an informer owns, with the gains that added them. It is immutable.
type Terms struct {
	key     shard.Key
	slots   shard.Slots
	changed <-chan struct{} // closed when newer terms exist
	gains   uint64
	since   []uint64 // for each slot, the gain that began its term; 0 if the slot is not owned
	epochs  []uint64
}

// Since returns the gain that added an object's slot, or 0 if it is not owned.
func (t *Terms) Since(o object.Head) uint64 { return t.SinceOf(t.key.Hash(o)) }

// SinceOf is like [Terms.Since] for a hash.
func (t *Terms) SinceOf(hash uint64) uint64 {
	if len(t.since) == 0 {
		return 0
	}
	return t.since[shard.SlotOf(hash, len(t.since))]
}

// stale reports whether newer terms exist.
func (t *Terms) stale() bool {
	select {
	case <-t.changed:
		return true
	default:
		return false
	}
}

// nothing returns the terms that follow t if the share has failed; they contain no slots.
func (t *Terms) nothing() *Terms {
	again := make(chan struct{})
	time.AfterFunc(afterFault, func() { close(again) })
	return &Terms{key: t.key, gains: t.gains, changed: again}
}

// next gets the next terms from the share.
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

// lost returns the slots in t whose terms have ended in next. A slot that was lost and regained in
// between is recognized by its epoch.
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

// Last returns the latest known terms without calling the share.
func (o *Ownership) Last() *Terms { return o.last.Load() }

// Terms returns the share's current terms.
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
	if lost := before.lost(t); lost.Len() > 0 { // before any list starts under the new terms
		o.hooks.Lost(lost)
	}
	o.mu.Unlock()
	<-o.asking
	if err != nil {
		o.hooks.ShareFailed(fmt.Errorf("%w; nothing is owned until it works again", err))
	}
	if t.gains != before.gains {
		o.hooks.Gained()
	}
	return t
}

// Gains implements reflector.Ownership.
func (o *Ownership) Gains() uint64 {
	o.Terms()
	o.mu.Lock() // wait until Hooks.Lost has been called
	defer o.mu.Unlock()
	return o.Last().gains
}

// Follow updates the terms after every change, until ctx is done. Other callers of Terms update them too and
// do not have to wait for Follow.
func (o *Ownership) Follow(ctx context.Context) {
	var asks time.Time // when the calls so far would have been made at a pace of one per asksEvery
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
