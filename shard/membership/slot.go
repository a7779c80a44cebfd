package membership

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/millrace-dev/millrace/shard"
)

// phase is a slot's phase.
type phase uint8

const (
	none    phase = iota
	claimed       // our Lease claims the slot or is about to; work is not allowed yet
	held          // work is allowed
	leaving       // our Lease still claims the slot; no new work is allowed
)

// slot is this member's state for a slot.
type slot struct {
	phase phase
	hands int       // number of Enter calls whose leave function has not been called
	since time.Time // when phase leaving began
	token shard.Token
	ctx   context.Context // parent context for work in the slot; nil if no work is allowed
	end   context.CancelCauseFunc
}

// ours reports whether this member still needs the slot's objects, because work may start or uncanceled work
// is in progress. The caller holds mu.
func (s *slot) ours() bool {
	return s.phase == held || s.phase == leaving && s.hands > 0 && s.ctx.Err() == nil
}

// Enter starts work on the object with the given hash. The returned context carries the Token. It is
// canceled when ctx is done, when the slot is lost, or when Options.Patience has expired for the slot;
// in the last two cases, its cause wraps shard.ErrLost or shard.ErrMoved. Call leave once the work has
// ended; the slot is not handed over before that. If this member does not own the slot, the error wraps
// shard.ErrNotOurs.
func (g *Group) Enter(ctx context.Context, hash uint64) (working context.Context, leave func(), err error) {
	n := shard.SlotOf(hash, g.opts.Slots)
	g.mu.Lock()
	defer g.mu.Unlock()
	s := &g.slots[n]
	if s.phase != held || !time.Now().Before(g.until) {
		return nil, nil, fmt.Errorf("membership: group %s: slot %d: %w", g.opts.Name, n, shard.ErrNotOurs)
	}
	s.hands++
	working, cancel := context.WithCancelCause(shard.WithToken(ctx, s.token))
	term := s.ctx
	detach := context.AfterFunc(term, func() { cancel(context.Cause(term)) })
	return working, sync.OnceFunc(func() {
		detach()
		cancel(nil)
		g.left(n)
	}), nil
}

// left records that work in a slot has ended.
func (g *Group) left(n int) {
	g.mu.Lock()
	s := &g.slots[n]
	s.hands--
	last := s.hands == 0 && s.phase != held
	g.mu.Unlock()
	if last {
		g.look()
	}
}

// hold starts a term. The caller holds mu.
func (s *slot) hold(token shard.Token) {
	s.phase, s.token = held, token
	s.ctx, s.end = context.WithCancelCause(context.Background())
}

// lose cancels the work in a slot. The caller holds mu.
func (s *slot) lose(cause error) {
	if s.end != nil {
		s.end(cause)
	}
}

// loseAll cancels all work, because it is no longer allowed. The claims remain, because no other member
// takes these slots while our Lease exists. The caller holds mu.
func (g *Group) loseAll(cause error) {
	lost := 0
	for n := range g.slots {
		s := &g.slots[n]
		if s.phase == held || s.phase == leaving {
			s.lose(cause)
			s.phase = claimed
			lost++
		}
	}
	if lost > 0 {
		g.status.Lost = &Failure{Err: cause, When: time.Now()}
		g.setOwned()
	}
}

// setOwned updates owned. The caller holds mu.
func (g *Group) setOwned() {
	now := g.those((*slot).ours)
	if now.Equal(g.owned) {
		return
	}
	g.owned = now
	close(g.changed)
	g.changed = make(chan struct{})
}

// claims returns the slots that our Lease should claim. The caller holds mu.
func (g *Group) claims() shard.Slots {
	return g.those(func(s *slot) bool { return s.phase != none })
}

// those returns the slots for which are returns true. The caller holds mu.
func (g *Group) those(are func(*slot) bool) shard.Slots {
	var all []int
	for n := range g.slots {
		if are(&g.slots[n]) {
			all = append(all, n)
		}
	}
	return shard.NewSlots(g.opts.Slots, all...)
}
