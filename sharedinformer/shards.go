package sharedinformer

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/source"
)

// shards is which part of its objects an informer is to have: those in the slots of a
// share, which come and go. Each feed has it with what that knows of the server (see selecting).
//
// Each change by which slots come is a gain. The cache holds a slot when a list that began after
// the gain of its term has been applied. Until then it may have objects of the slot that are older
// than what the owner before wrote (S04).
type shards struct {
	shard.Scope
	mayHave func(object.Version) bool // whether the cache has, or may come to have, an object
	lost    func(shard.Slots)         // has the cache drop the objects of slots
	gained  func()                    // has the reflectors list anew

	ask    func(func()) error // calls the share, which is a user's
	failed func(error)        // is told why that failed
	asking chan struct{}      // a token while the share is asked

	mu  sync.Mutex // orders changes of now, and what lost and Gains say of them; nothing of a user's is called under it
	now atomic.Pointer[terms]
}

// How often a share is asked that changes without end: so often in a row, and then at that
// distance. One that failed is asked again after a while.
const (
	asksInARow = 100
	asksEvery  = 10 * time.Millisecond
	afterFault = time.Second
)

// terms is which slots are ours, and since when. It does not change.
type terms struct {
	slots   shard.Slots
	changed <-chan struct{} // closed when there are other terms
	gains   uint64
	since   []uint64 // the gain by which the term of each slot began; 0 where it is not ours
	epochs  []uint64
}

// of returns the gain by which the slot of a hash came, and 0 where it is not ours.
func (t *terms) of(hash uint64) uint64 {
	if len(t.since) == 0 {
		return 0
	}
	return t.since[shard.SlotOf(hash, len(t.since))]
}

// stale reports whether there are other terms.
func (t *terms) stale() bool {
	select {
	case <-t.changed:
		return true
	default:
		return false
	}
}

// nothing returns the terms that follow where the share cannot say what is ours.
func (t *terms) nothing() *terms {
	again := make(chan struct{})
	time.AfterFunc(afterFault, func() { close(again) })
	return &terms{gains: t.gains, changed: again}
}

// next returns the terms that follow.
func (t *terms) next(share shard.Share) *terms {
	next := &terms{gains: t.gains}
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
func (t *terms) lost(next *terms) shard.Slots {
	if t.slots.Total() != next.slots.Total() {
		return t.slots
	}
	lost := shard.NewSlots(t.slots.Total())
	for _, slot := range t.slots.All() {
		if t.since[slot] != next.since[slot] {
			lost = lost.Union(shard.NewSlots(t.slots.Total(), slot))
		}
	}
	return lost
}

// divide gives the informer the part that a scope has. It is called by newCore.
func (i *core) divide(by shard.Scope) {
	if by.Everything() {
		return
	}
	outset := make(chan struct{})
	close(outset)
	i.shards = &shards{
		Scope: by, mayHave: i.mayHave,
		lost: func(slots shard.Slots) {
			drop := func(o object.Head) bool { return slots.HasHash(by.Key.Hash(o)) }
			i.queue.Add(deltafifo.Delta{Type: deltafifo.Drop, Part: &deltafifo.Part{Drop: drop}})
		},
		gained: func() {
			for _, f := range i.feeds.all() {
				f.reflector.Relist(nil)
			}
		},
		ask: i.askShare, asking: make(chan struct{}, 1),
		failed: func(err error) { i.reportNow(&failure.Failure{Phase: failure.PhaseHook, Err: err}) },
	}
	i.shards.now.Store(&terms{gains: 1, changed: outset})
	if err := i.shards.unfit(i.from); err != nil {
		now := time.Now()
		i.feeds.refused = &failure.Failure{Resource: i.from.Name, Phase: failure.PhaseOptions, Attempts: 1, Since: now, Last: now, Err: err}
	}
}

// askShare calls a share. The status says where it does not return.
func (i *core) askShare(do func()) error {
	name := fmt.Sprintf("the methods of the share (%T)", i.shards.Share)
	slow := time.AfterFunc(slowCall, func() {
		i.note(&failure.Failure{Phase: failure.PhaseHook, Err: fmt.Errorf("%s do not return: they were called %s ago, and nothing is held or let go until they do", name, slowCall)})
	})
	defer slow.Stop()
	return i.callHook(name, nil, do)
}

// mayHave reports whether the cache has an object, or may come to have it by what is queued.
func (i *core) mayHave(v object.Version) bool {
	if i.queue.Len() > 0 || i.batches.Load()%2 == 1 {
		return true
	}
	have, cached := i.cache.Peek(v.Key)
	return cached && have.GetUID() == v.UID
}

// Scope returns what the informer has of its objects.
func (i *core) Scope() shard.Scope {
	if i.shards == nil {
		return shard.Scope{}
	}
	return i.shards.Scope
}

// Holds reports whether what is in the slot of a hash is in the cache.
func (i *core) Holds(hash uint64) bool {
	if i.shards == nil {
		return i.HasSynced()
	}
	since := i.shards.look().of(hash)
	for _, f := range i.feeds.all() {
		if f.held.Load() < since {
			return false
		}
	}
	return since > 0 && i.broken.Load() == nil
}

// look returns the terms, which are as the share has them now.
func (s *shards) look() *terms {
	t := s.now.Load()
	if !t.stale() {
		return t
	}
	s.asking <- struct{}{}
	before := s.now.Load()
	t = before
	var err error
	if before.stale() {
		if err = s.ask(func() { t = before.next(s.Share) }); err != nil {
			t = before.nothing()
		}
	}
	s.mu.Lock()
	s.now.Store(t)
	if lost := before.lost(t); lost.Len() > 0 { // it is queued before any list that begins in these terms
		s.lost(lost)
	}
	s.mu.Unlock()
	<-s.asking
	if err != nil {
		s.failed(fmt.Errorf("%w; nothing is held until it says what is ours", err))
	}
	if t.gains != before.gains {
		s.gained()
	}
	return t
}

// watch looks at every change until ctx is done. Others look too, and need not wait for it.
func (s *shards) watch(ctx context.Context) {
	var asks time.Time // how much of its asking it has had
	for {
		t, now := s.look(), time.Now()
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

// Gains implements reflector.Ownership.
func (s *shards) Gains() uint64 {
	s.look()
	s.mu.Lock() // until what was lost is queued
	defer s.mu.Unlock()
	return s.now.Load().gains
}

// unfit says why the objects of a source cannot be divided; nil if they can.
func (s *shards) unfit(from source.Description) error {
	if err := s.Err(); err != nil {
		return fmt.Errorf("Options.Shard: %w", err)
	}
	if s.Key.Fixed() {
		return nil
	}
	if from.Altered {
		return fmt.Errorf("Options.Shard: objects go through a transform, and to divide them by %s nobody may change them: divide by UID or namespace", s.Key)
	}
	for _, field := range s.Key.Fields() {
		if !from.Kept.KeepsAll(field) {
			return fmt.Errorf("Options.Shard: dividing by %s needs %s, which is not kept: keep it, or divide by UID or namespace", s.Key, field)
		}
	}
	return nil
}
