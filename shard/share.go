package shard

import (
	"context"
	"errors"
	"fmt"
	"reflect"
)

// Share is what one process has of the slots at any moment. It is safe for concurrent use.
//
// A process may work on an object after Enter, and until it leaves. Owned is for what
// prepares the work, such as a cache.
type Share interface {
	// Owned returns the slots that this process has, and a channel that is closed when
	// they have changed.
	Owned() (Slots, <-chan struct{})

	// Term returns the token of the term in which this process has a slot, and false if
	// it does not have it. What was prepared in one term is not for the next: between
	// them others may have worked in the slot.
	Term(slot int) (Token, bool)

	// Enter begins work on something with a hash. The context carries the Token, and ends
	// with ctx, or when the slot is lost: then with a cause that wraps ErrLost or ErrMoved.
	// Call leave when the work has ended; until then the slot is not handed over. The error
	// wraps ErrNotOurs.
	Enter(ctx context.Context, hash uint64) (working context.Context, leave func(), err error)
}

// Errors of Share, and causes of the ends of contexts.
var (
	// ErrNotOurs: the slot is not this process's at the moment.
	ErrNotOurs = errors.New("the slot is not ours")
	// ErrMoved: the slot is to be another process's, or this one leaves.
	ErrMoved = errors.New("the slot moves to another member")
	// ErrLost: our Lease could not be renewed in time, or it was taken away.
	ErrLost = errors.New("our lease was lost")
)

// Token tells the terms of one slot apart. Later terms have greater epochs, whoever has
// them: an epoch is the resource version of the Lease at whose state the term began. Send
// it along with what only the owner may do, and let the receiver remember the greatest
// and refuse smaller ones. After a restore of the API server's data, resource versions may
// come again, and the receiver has to forget it.
type Token struct {
	Slot  int
	Epoch uint64
}

type tokenKey struct{}

// WithToken returns a context for work in a term. It is for those who make a Share.
func WithToken(ctx context.Context, t Token) context.Context {
	return context.WithValue(ctx, tokenKey{}, t)
}

// TokenOf returns the token of the term in which ctx works. It reports false where ctx is
// not that of Enter.
func TokenOf(ctx context.Context) (Token, bool) {
	t, ok := ctx.Value(tokenKey{}).(Token)
	return t, ok
}

// Ordinal returns the share of process i of n, counted from 0, such as a Pod of
// a StatefulSet: one of n slots, for ever. It needs no Leases and nobody's consent, and so
// it keeps S01 only as long as there is one process for each i, and all have the same n.
// To change n, stop all of them first. Its epochs are 0. Ordinal panics unless 0 <= i < n.
func Ordinal(i, n int) Share {
	if i < 0 || i >= n {
		panic(fmt.Sprintf("shard: Ordinal(%d, %d): want the first from 0 to the second less one", i, n))
	}
	return &ordinal{NewSlots(n, i)}
}

type ordinal struct{ slots Slots }

// Owned implements Share: nothing changes.
func (o *ordinal) Owned() (Slots, <-chan struct{}) { return o.slots, nil }

// Term implements Share.
func (o *ordinal) Term(slot int) (Token, bool) { return Token{Slot: slot}, o.slots.Has(slot) }

// Enter implements Share.
func (o *ordinal) Enter(ctx context.Context, hash uint64) (context.Context, func(), error) {
	n := SlotOf(hash, o.slots.total)
	if !o.slots.Has(n) {
		return nil, nil, fmt.Errorf("shard: slot %d of %d: %w", n, o.slots.total, ErrNotOurs)
	}
	working, cancel := context.WithCancel(WithToken(ctx, Token{Slot: n}))
	return working, cancel, nil
}

// Scope is what of a kind a process holds: what a key puts into its share. The zero value is
// everything. Two scopes are one where their keys have one name and their shares are equal, so
// a Share must be of a comparable type, such as a pointer.
type Scope struct {
	Key   Key
	Share Share
}

// Everything reports whether the scope leaves nothing out.
func (s Scope) Everything() bool { return s.Share == nil }

// Err says why the scope can be nobody's; nil if it can.
func (s Scope) Err() error {
	if s.Share == nil || reflect.ValueOf(s.Share).Comparable() {
		return nil
	}
	return fmt.Errorf("a %T is no shard.Share that can be told from others: its type must be comparable, such as a pointer", s.Share)
}
