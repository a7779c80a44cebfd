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

// WaitForSync waits until a whole list is in the store of an informer, ctx is done,
// or the informer has stopped. The error says why it is not (L22). Of client-go's
// own informers it says no more than that, and does not hear of their stop.
func WaitForSync(ctx context.Context, informer cache.SharedIndexInformer) error {
	c, ours := informer.GetController().(controller)
	var stopped <-chan struct{}
	if ours {
		stopped = c.stopped.Done()
	}
	select {
	case <-informer.HasSyncedChecker().Done():
		return nil
	case <-ctx.Done():
	case <-stopped:
	}
	switch {
	case informer.HasSynced(): // both at once
		return nil
	case ours:
		return c.unsynced(ctx)
	}
	return fmt.Errorf("%s has not synced: %w", informer.HasSyncedChecker().Name(), context.Cause(ctx))
}
