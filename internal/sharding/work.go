package sharding

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/shard"
)

// ErrNotHeld: the cache is yet to list the objects that came with the slot.
var ErrNotHeld = errors.New("the cache does not have yet what came with the slot")

// Work is work in a slot that this process owns.
type Work struct {
	Context context.Context // carries the token, and ends with the slot
	Share   shard.Share
	Token   shard.Token
	Hash    uint64
	leave   func()
}

// Enter enters a share for work on an object with a hash. It returns no work if the object is
// another process's, or, with a wait after which to try again, if the slot is to be handed over
// or holds reports that a cache does not hold it. It panics if the share or holds does.
func (w *Waits) Enter(ctx context.Context, share shard.Share, hash uint64, holds func(hash uint64) bool) (in *Work, wait time.Duration, err error) {
	working, leave, err := share.Enter(ctx, hash)
	switch {
	case errors.Is(err, shard.ErrNotOurs):
		return nil, w.refused(share, hash), nil
	case err != nil:
		return nil, 0, err
	case working == nil || leave == nil:
		return nil, 0, fmt.Errorf("the share (%T) says that a slot is ours, and returns no context or no leave", share)
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
		return in, 0, fmt.Errorf("the share (%T) gives work a context without a token: make it with shard.WithToken", share)
	}
	if entered = false; !holds(hash) {
		return in, w.Next(in.Token), nil
	}
	entered = true
	w.held(in.Token.Slot)
	return in, 0, nil
}

// Leave ends the work, so that the slot may be handed over. It fails if the share does.
func (w *Work) Leave() error {
	return failure.Apart("the leave of the share", func() error {
		w.leave()
		return nil
	})
}

// Lacks says why an object of the share that a cache lacks may exist all the same: the slot of the
// work was lost, or holds reports that the cache does not hold it. It is asked after the cache was
// read, since a cache drops objects after their slot is lost.
func (w *Work) Lacks(holds func(hash uint64) bool) error {
	switch token, ours := w.Share.Term(w.Token.Slot); {
	case !ours || token != w.Token:
		return Loss(w.Context)
	case !holds(w.Hash):
		return ErrNotHeld
	}
	return nil
}
