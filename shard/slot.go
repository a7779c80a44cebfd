package shard

import (
	"context"
	"fmt"
	"sync"
	"time"
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
	token Token
	ctx   context.Context // ends the work in it; nil while nothing may be in it
	end   context.CancelCauseFunc
}

// Token tells the terms of one slot apart. Later terms have greater epochs, whoever has
// them: an epoch is the resource version of the Lease at whose state the term began. Send
// it along with what only the owner may do, and let the receiver remember the greatest
// and refuse smaller ones.
type Token struct {
	Slot  int
	Epoch uint64
}

type tokenKey struct{}

// TokenOf returns the token of the term in which ctx works. It reports false where ctx is
// not that of Enter.
func TokenOf(ctx context.Context) (Token, bool) {
	t, ok := ctx.Value(tokenKey{}).(Token)
	return t, ok
}

// Enter begins work on something with a hash. The context carries the Token, and ends with
// ctx, or when the slot is lost or its patience is over: then with a cause that wraps
// ErrLost or ErrMoved. Call leave when the work has ended; until then the slot is not handed
// over. The error wraps ErrNotOurs.
func (g *Group) Enter(ctx context.Context, hash uint64) (working context.Context, leave func(), err error) {
	n := SlotOf(hash, g.opts.Slots)
	g.mu.Lock()
	defer g.mu.Unlock()
	s := &g.slots[n]
	if s.phase != held || !time.Now().Before(g.until) {
		return nil, nil, fmt.Errorf("shard: group %s: slot %d: %w", g.opts.Name, n, ErrNotOurs)
	}
	s.hands++
	working, cancel := context.WithCancelCause(context.WithValue(ctx, tokenKey{}, s.token))
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
func (s *slot) hold(token Token) {
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
		g.status.Lost = &Failure{cause, time.Now()}
		g.setOwned()
	}
}

// setOwned brings owned up to date. It is called under mu.
func (g *Group) setOwned() {
	now := NewSlots(g.opts.Slots)
	for n := range g.slots {
		if g.slots[n].phase == held {
			now.words[n/64] |= 1 << (n % 64)
		}
	}
	if now.Equal(g.owned) {
		return
	}
	g.owned = now
	close(g.changed)
	g.changed = make(chan struct{})
}

// claims is what our Lease should say. It is called under mu.
func (g *Group) claims() Slots {
	all := NewSlots(g.opts.Slots)
	for n := range g.slots {
		if g.slots[n].phase != none {
			all.words[n/64] |= 1 << (n % 64)
		}
	}
	return all
}
