package sharding

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/millrace-dev/millrace/shard"
)

// Soon and Late are the minimum and maximum time before checking again whether the caches hold a slot.
const (
	Soon = 20 * time.Millisecond
	Late = 5 * time.Second
)

// Waits tracks slots that the caches did not hold when last checked. The zero value is ready to use. It
// is safe for concurrent use.
type Waits struct {
	mu    sync.Mutex
	first map[int]wait // keyed by slot, so the size of the map is bounded
}

// wait tracks the checks in a term that found that the caches do not hold the slot.
type wait struct {
	term  shard.Token
	asked time.Time // the first one
	last  time.Time // the last one
	held  bool      // another check found that they hold it, at least as far as it concerned its request
}

// Next returns how long a request waits before the caches are checked again. That is a quarter of the
// time since a check first found, in this term, that they do not hold the slot. It starts again if they have held the
// slot in between, unless other requests still wait for it.
func (w *Waits) Next(term shard.Token) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	first, known := w.first[term.Slot]
	now := time.Now()
	if !known || first.term != term || first.held && now.Sub(first.last) > 2*Late {
		if w.first == nil {
			w.first = map[int]wait{}
		}
		first = wait{term: term, asked: now}
	}
	first.last = now
	w.first[term.Slot] = first
	return min(max(time.Since(first.asked)/4, Soon), Late)
}

// held records that the caches hold a slot for one request. Others may concern a namespace that is still missing, so
// their checks stay rare.
func (w *Waits) held(slot int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if first, known := w.first[slot]; known && !first.held {
		first.held = true
		w.first[slot] = first
	}
}

// refused returns how long to delay a request that was refused entry to a slot, or 0 if the slot is not
// owned and the request therefore belongs to another process. Entry to an owned slot may be refused at
// the end of a lease that is then renewed, or before a handover. Informers keep such a slot without
// sending new events for it, so the request must not be dropped.
func (w *Waits) refused(share shard.Share, hash uint64) time.Duration {
	owned, _ := share.Owned()
	if !owned.HasHash(hash) {
		return 0
	}
	slot := shard.SlotOf(hash, owned.Total())
	term, known := share.Term(slot)
	if !known {
		term = shard.Token{Slot: slot}
	}
	return w.Next(term)
}

// Loss returns the reason ctx's slot was lost: shard.ErrLost or shard.ErrMoved.
func Loss(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, shard.ErrLost) {
		return shard.ErrLost
	}
	return shard.ErrMoved
}

// Over reports whether ctx was canceled because its slot was lost.
func Over(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return errors.Is(cause, shard.ErrLost) || errors.Is(cause, shard.ErrMoved)
}
