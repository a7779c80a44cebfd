package controllerruntime_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/millrace-dev/millrace/shard"
)

// estate is a share of two slots that the test grants and revokes. As in a group, work in a revoked
// slot continues.
type estate struct {
	enter func() // called before each Enter; may be nil

	mu      sync.Mutex
	slots   shard.Slots
	terms   map[int]uint64
	changed chan struct{}
	hands   int // calls of Enter whose leave was not called
}

func newEstate(slots ...int) *estate {
	e := &estate{terms: map[int]uint64{}, changed: make(chan struct{})}
	e.set(slots...)
	return e
}

// set changes the slots of the share.
func (e *estate) set(slots ...int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, slot := range slots {
		if !e.slots.Has(slot) {
			e.terms[slot]++
		}
	}
	e.slots = shard.NewSlots(2, slots...)
	close(e.changed)
	e.changed = make(chan struct{})
}

// busy returns how many callers have entered and not left.
func (e *estate) busy() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.hands
}

// Owned implements shard.Share.
func (e *estate) Owned() (shard.Slots, <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.slots, e.changed
}

// Term implements shard.Share.
func (e *estate) Term(slot int) (shard.Token, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return shard.Token{Slot: slot, Epoch: e.terms[slot]}, e.slots.Has(slot)
}

// Enter implements shard.Share.
func (e *estate) Enter(ctx context.Context, hash uint64) (context.Context, func(), error) {
	if e.enter != nil {
		e.enter()
	}
	slot := shard.SlotOf(hash, 2)
	token, ours := e.Term(slot)
	if !ours {
		return nil, nil, fmt.Errorf("slot %d: %w", slot, shard.ErrNotOurs)
	}
	e.count(1)
	working, cancel := context.WithCancel(shard.WithToken(ctx, token))
	return working, func() {
		cancel()
		e.count(-1)
	}, nil
}

func (e *estate) count(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hands += n
}
