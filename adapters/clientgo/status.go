package clientgo

import (
	"context"
	"fmt"

	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/sharedinformer"
)

// Status returns how an informer made by this package is doing: its state and
// since when, what failed last, and how far each handler is. It returns false
// for others.
func Status(informer cache.SharedIndexInformer) (sharedinformer.Status, bool) {
	if c, ok := informer.GetController().(controller); ok { // the informer itself may be wrapped
		return c.status(), true
	}
	return sharedinformer.Status{}, false
}

// unsynced says why an informer had not synced when ctx was done.
func unsynced(ctx context.Context, informer cache.SharedIndexInformer) error {
	if c, ok := informer.GetController().(controller); ok {
		return c.unsynced(ctx)
	}
	return fmt.Errorf("%s has not synced: %w", informer.HasSyncedChecker().Name(), context.Cause(ctx))
}
