package sharding

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/millrace-dev/millrace/shard"
)

// Soon and Late are how soon caches are asked again whether they hold a slot, at least and
// at most.
const (
	Soon = 20 * time.Millisecond
	Late = 5 * time.Second
)

// Waits are the terms of slots that caches did not hold when somebody asked. The zero value
// is ready, and safe for concurrent use.
type Waits struct {
	mu    sync.Mutex
	first map[int]wait // by slot: there are not more
}

// wait is when it was asked first in a term.
type wait struct {
	term  shard.Token
	asked time.Time
}

// Next is how long a request waits until the caches are asked again: a quarter of the time
// for which they have been asked in this term, since they held the slot last.
func (w *Waits) Next(term shard.Token) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	first, known := w.first[term.Slot]
	if !known || first.term != term {
		if w.first == nil {
			w.first = map[int]wait{}
		}
		first = wait{term, time.Now()}
		w.first[term.Slot] = first
	}
	return min(max(time.Since(first.asked)/4, Soon), Late)
}

// held forgets the wait for a slot.
func (w *Waits) held(slot int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.first, slot)
}

// refused is Next for a request that may not enter a slot now, and 0 if the share does not have the
// slot: then the request is another process's. A slot that it has may be refused at the end of a
// lease that is renewed after all, or until it is handed over; informers keep it, and tell of
// nothing again.
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

// Loss is why a slot in which ctx worked is no longer ours: shard.ErrLost or shard.ErrMoved.
func Loss(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, shard.ErrLost) {
		return shard.ErrLost
	}
	return shard.ErrMoved
}

// Over reports whether the work in a context ended because its slot is another's.
func Over(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return errors.Is(cause, shard.ErrLost) || errors.Is(cause, shard.ErrMoved)
}
