package shard

import (
	"context"
	"errors"
	"fmt"
	"reflect"
)

// Share is the set of slots that a process currently owns. It is safe for concurrent use.
//
// A process may work on an object between Enter and leave. Use Owned to prepare for work, for example by
// filling a cache.
type Share interface {
	// Owned returns this process's slots, and a channel that is closed when they change.
	Owned() (Slots, <-chan struct{})

	// Term returns the token of this process's term in a slot, or false if it does not own the slot.
	// Anything prepared in one term is invalid in the next, because other processes may have worked in the
	// slot in between.
	Term(slot int) (Token, bool)

	// Enter starts work on the object with the given hash. The returned context carries the Token. It is
	// canceled when ctx is done or the slot is lost; in the latter case, its cause wraps ErrLost or
	// ErrMoved. Call leave once the work has ended; the slot is not handed over before that. If this
	// process does not own the slot, the error wraps ErrNotOurs.
	Enter(ctx context.Context, hash uint64) (working context.Context, leave func(), err error)
}

// Errors returned by a Share, and causes of its contexts.
var (
	// ErrNotOurs means that this process does not currently own the slot.
	ErrNotOurs = errors.New("the slot is not ours")
	// ErrMoved means that the slot is moving to another process, or that this process is leaving.
	ErrMoved = errors.New("the slot is moving to another member")
	// ErrLost means that our Lease was not renewed in time, or was deleted or taken over.
	ErrLost = errors.New("our lease was lost")
)

// Token identifies a slot's term. The epoch is the Lease's resource version at the start of the term, so
// later terms have greater epochs, whichever process owns the slot. Send the token with each request that
// only the owner may make. The receiver should remember the greatest epoch it has seen and reject smaller
// ones. After the API server's data is restored from a backup, resource versions may repeat, so the
// receiver must then forget the greatest epoch.
type Token struct {
	Slot  int
	Epoch uint64
}

type tokenKey struct{}

// WithToken returns a context for work in a term. It is meant for implementations of Share.
func WithToken(ctx context.Context, t Token) context.Context {
	return context.WithValue(ctx, tokenKey{}, t)
}

// TokenOf returns the token of the term that ctx belongs to, or false if ctx was not returned by Enter.
func TokenOf(ctx context.Context) (Token, bool) {
	t, ok := ctx.Value(tokenKey{}).(Token)
	return t, ok
}

// Ordinal returns the fixed share of process i of n, counting from 0: one of n slots. The processes may
// be the Pods of a StatefulSet. Ordinal does not use Leases, so S01 holds only if there is exactly one
// process for each i and all of them use the same n. To change n, stop all processes first. Its epochs are
// 0. Ordinal panics unless 0 <= i < n.
func Ordinal(i, n int) Share {
	if i < 0 || i >= n {
		panic(fmt.Sprintf("shard: Ordinal(%d, %d): want 0 <= i < n", i, n))
	}
	return &ordinal{NewSlots(n, i)}
}

type ordinal struct{ slots Slots }

// Owned implements Share. The slots never change.
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

// Scope selects the objects of a kind that a key assigns to a process's share. The zero value selects all
// objects. Two scopes are considered equal if their keys have the same name and their shares are equal, so a
// Share's type must be comparable, such as a pointer.
type Scope struct {
	Key   Key
	Share Share
}

// Everything reports whether the scope selects all objects.
func (s Scope) Everything() bool { return s.Share == nil }

// Err returns an error if the Share is not comparable.
func (s Scope) Err() error {
	if s.Share == nil || reflect.ValueOf(s.Share).Comparable() {
		return nil
	}
	return fmt.Errorf("a %T is not comparable: a shard.Share needs a comparable type, such as a pointer", s.Share)
}
