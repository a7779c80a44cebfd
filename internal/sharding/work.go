package sharding

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/shard"
)

// ErrNotHeld means that the cache does not contain a list of the slot's objects yet.
var ErrNotHeld = errors.New("the cache does not have the slot's objects yet")

// Work represents ongoing work in an owned slot.
type Work struct {
	Context context.Context // carries the token; done when the slot is lost
	Share   shard.Share
	Token   shard.Token
	Hash    uint64
	leave   func()
}

// Enter starts work on the object with the given hash. It returns nil if the object belongs to another
// process. If the slot is being handed over, or holds returns false, it returns nil and how long to wait
// before the next attempt. It panics if share or holds panics.
func (w *Waits) Enter(ctx context.Context, share shard.Share, hash uint64, holds func(hash uint64) bool) (in *Work, wait time.Duration, err error) {
	working, leave, err := share.Enter(ctx, hash)
	switch {
	case errors.Is(err, shard.ErrNotOurs):
		return nil, w.refused(share, hash), nil
	case err != nil:
		return nil, 0, err
	case working == nil || leave == nil:
		return nil, 0, fmt.Errorf("the share (%T) reports a slot as ours but returns no context or leave function", share)
	}
	in = &Work{Context: working, Share: share, Hash: hash, leave: leave}
	entered := false
	defer func() {
		if !entered {
			err = errors.Join(err, in.Leave())
			in = nil
		}
	}()
	if in.Token, entered = shard.TokenOf(working); !entered {
		return in, 0, fmt.Errorf("the share (%T) returns a context without a token: create it with shard.WithToken", share)
	}
	if entered = false; !holds(hash) {
		return in, w.Next(in.Token), nil
	}
	entered = true
	w.held(in.Token.Slot)
	return in, 0, nil
}

// Leave ends the work, so that the slot may be handed over. It returns an error if the share fails.
func (w *Work) Leave() error {
	return failure.Apart("the leave of the share", func() error {
		w.leave()
		return nil
	})
}

// Lacks returns an error if an object in the share may exist even though it is not in a cache, because the
// slot was lost or holds returns false. Call it after reading the cache, which drops objects only after their
// slot is lost.
func (w *Work) Lacks(holds func(hash uint64) bool) error {
	switch token, ours := w.Share.Term(w.Token.Slot); {
	case !ours || token != w.Token:
		return Loss(w.Context)
	case !holds(w.Hash):
		return ErrNotHeld
	}
	return nil
}
