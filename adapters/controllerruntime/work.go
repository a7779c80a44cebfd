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

// work is what a reconciler of Sharded has in hand. Its context has it, so that a read of
// the cache never takes for gone what another process has.
type work struct {
	*sharding.Work
	kind schema.GroupKind // of the reconciled object
	key  client.ObjectKey // of the reconciled object
}

type workKey struct{}

func withWork(ctx context.Context, w *work) context.Context {
	return context.WithValue(ctx, workKey{}, w)
}

// errElsewhere: the cache has let go of objects, which may be another process's now.
var errElsewhere = errors.New("what the cache lacks may be another process's")

// lacking says why what a read in ctx did not find may be there all the same: because the slot
// of the work was lost meanwhile, or the objects of the kind are yet to come. It is asked
// after the read. If the term of the work goes on then, nothing was dropped before.
func (k *kind) lacking(ctx context.Context) error {
	w, ok := ctx.Value(workKey{}).(*work)
	if !ok || k.shard.Share != w.Share {
		return nil
	}
	switch err := w.Lacks(k.holds); {
	case err == nil:
		return nil
	case errors.Is(err, sharding.ErrNotHeld):
		return k.unreadable(err)
	default:
		return k.unreadable(fmt.Errorf("%w: %w", errElsewhere, err))
	}
}

// absent says why an object that a read in ctx did not find may be there all the same. The
// object that is reconciled was in the cache when the work began; by a key that may change, such
// as a label, it may have moved since, and nobody can tell that from a deletion.
func (k *kind) absent(ctx context.Context, key client.ObjectKey) error {
	w, ok := ctx.Value(workKey{}).(*work)
	if ok && !k.shard.Everything() && !k.shard.Key.Fixed() && key == w.key && k.gvk.GroupKind() == w.kind {
		return k.unreadable(fmt.Errorf("%w: %w", errElsewhere, shard.ErrMoved))
	}
	return k.lacking(ctx)
}

func (k *kind) unreadable(err error) error {
	return fmt.Errorf("unable to read %s: %w", k.gvk.Kind, err)
}
