package controller

import (
	"context"
	"errors"
	"slices"

	"github.com/millrace-dev/millrace/internal/sharding"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/shard"
)

// work is what a reconcile of a share has in hand. Its context has it, so that a read of a
// cache never takes for gone what another process has.
type work struct {
	share shard.Share
	token shard.Token
	hash  uint64
	key   object.Key
	had   []any // the informers of what is reconciled that had it when the work began
}

type workKey struct{}

func withWork(ctx context.Context, w *work) context.Context {
	return context.WithValue(ctx, workKey{}, w)
}

// workOf returns what withWork put into ctx, nil if nothing.
func workOf(ctx context.Context) *work {
	w, _ := ctx.Value(workKey{}).(*work)
	return w
}

// having returns the informers of what is reconciled that have what req names.
func having(req Request, sources []*subscription) (all []any) {
	for _, sub := range sources {
		if of := sub.source.holding; of != nil && sub.source.role == reconciled && sub.source.cluster == req.Cluster {
			if _, has := of.find(req.Key); has {
				all = append(all, of.of)
			}
		}
	}
	return all
}

// errNotHeld: the cache is yet to list the objects that came with the slot.
var errNotHeld = errors.New("the cache does not have yet what came with the slot")

// lacks says why an object of the share that an informer does not have may exist: because the slot
// of the work was lost meanwhile, because what came with it is yet to come, or because the object
// has moved, which by a key that may change, such as a label, nobody can tell from a deletion.
func (w *work) lacks(ctx context.Context, informer any, scope shard.Scope, holds func(uint64) bool, key object.Key) error {
	switch token, ours := w.share.Term(w.token.Slot); {
	case !ours || token != w.token:
		return sharding.Loss(ctx)
	case !holds(w.hash):
		return errNotHeld
	case !scope.Key.Fixed() && key == w.key && slices.Contains(w.had, informer):
		return shard.ErrMoved
	}
	return nil
}
