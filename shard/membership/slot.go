package membership

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/millrace-dev/millrace/shard"
)

// phase is how far we are with a slot.
type phase uint8

const (
	none    phase = iota
	claimed       // our Lease says that we want it, or is about to; we may not work yet
	held          // we may work
	leaving       // our Lease still says that we have it; no more work begins
)

// slot is what this member does with one slot.
type slot struct {
	phase phase
	hands int       // how many calls of Enter have not been left
	since time.Time // when it began to leave
	token shard.Token
	ctx   context.Context // ends the work in it; nil while nothing may be in it
	end   context.CancelCauseFunc
}

// ours reports whether what is in the slot is still to be read here: work may begin in it, or
// goes on, and has not been told to end. It is called under mu.
func (s *slot) ours() bool {
	return s.phase == held || s.phase == leaving && s.hands > 0 && s.ctx.Err() == nil
}

// Enter begins work on something with a hash. The context carries the Token, and ends with
// ctx, or when the slot is lost or its patience is over: then with a cause that wraps
// shard.ErrLost or shard.ErrMoved. Call leave when the work has ended; until then the slot is not handed
// over. The error wraps shard.ErrNotOurs.
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

// left notes that work in a slot has ended.
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

// hold begins a term. It is called under mu.
func (s *slot) hold(token shard.Token) {
	s.phase, s.token = held, token
	s.ctx, s.end = context.WithCancelCause(context.Background())
}

// lose ends what is in a slot. It is called under mu.
func (s *slot) lose(cause error) {
	if s.end != nil {
		s.end(cause)
	}
}

// loseAll ends everything, because we may not work any more. What is claimed stays so: if
// our Lease is still there nobody else has it. It is called under mu.
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

// setOwned brings owned up to date. It is called under mu.
func (g *Group) setOwned() {
	now := g.those((*slot).ours)
	if now.Equal(g.owned) {
		return
	}
	g.owned = now
	close(g.changed)
	g.changed = make(chan struct{})
}

// claims is what our Lease should say. It is called under mu.
func (g *Group) claims() shard.Slots {
	return g.those(func(s *slot) bool { return s.phase != none })
}

// those returns the slots that are so. It is called under mu.
func (g *Group) those(are func(*slot) bool) shard.Slots {
	var all []int
	for n := range g.slots {
		if are(&g.slots[n]) {
			all = append(all, n)
		}
	}
	return shard.NewSlots(g.opts.Slots, all...)
}
