package controllerruntime

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/millrace-dev/millrace/internal/sharding"
	"github.com/millrace-dev/millrace/shard"
)

// work is the work in progress in a Sharded reconciler. It is carried by the reconciler's context, so that a
// cache read never mistakes an object in another process for a deleted one.
type work struct {
	*sharding.Work
	kind schema.GroupKind // of the reconciled object
	key  client.ObjectKey // of the reconciled object
}

type workKey struct{}

func withWork(ctx context.Context, w *work) context.Context {
	return context.WithValue(ctx, workKey{}, w)
}

// errElsewhere is returned if objects have left the cache and may now be in another process.
var errElsewhere = errors.New("objects missing from the cache may be in another process")

// lacking returns an error if an object that was not found by a read of a namespace with ctx may nevertheless exist: the
// slot was lost during the work, or the kind's objects have not arrived yet. It must be called after the
// read. If the work's term is still valid at that time, the cache cannot have dropped anything before the
// read.
func (k *kind) lacking(ctx context.Context, namespace string) error {
	w, ok := ctx.Value(workKey{}).(*work)
	if !ok || k.shard.Share != w.Share {
		return nil
	}
	switch err := w.Lacks(func(hash uint64) bool { return k.holds(hash, namespace) }); {
	case err == nil:
		return nil
	case errors.Is(err, sharding.ErrNotHeld):
		return k.unreadable(err)
	default:
		return k.unreadable(fmt.Errorf("%w: %w", errElsewhere, err))
	}
}

// absent is like lacking, for a single key. The reconciled object was in the cache when the work
// began. If its shard key can change, as a label can, it may have moved since, which looks like a
// deletion.
func (k *kind) absent(ctx context.Context, key client.ObjectKey) error {
	w, ok := ctx.Value(workKey{}).(*work)
	if ok && !k.shard.Everything() && !k.shard.Key.Fixed() && key == w.key && k.gvk.GroupKind() == w.kind {
		return k.unreadable(fmt.Errorf("%w: %w", errElsewhere, shard.ErrMoved))
	}
	return k.lacking(ctx, key.Namespace)
}

func (k *kind) unreadable(err error) error {
	return fmt.Errorf("unable to read %s: %w", k.gvk.Kind, err)
}
