package clientgo

import (
	"context"
	"fmt"

	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/sharedinformer"
)

// Status returns the status of an informer made by this package: its state and when that began, its last
// failure, and the progress of each handler. It returns false for other informers.
func Status(informer cache.SharedIndexInformer) (sharedinformer.Status, bool) {
	if c, ok := informer.GetController().(controller); ok { // the informer itself may be wrapped
		return c.status(), true
	}
	return sharedinformer.Status{}, false
}

// WaitForSync waits until a complete list is in the store of an informer, ctx is done, or the informer has
// stopped. The error says why it has not synced (L22). For client-go's own informers the error has no
// reason, and WaitForSync does not notice that they stop.
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
	case informer.HasSynced(): // both may be ready
		return nil
	case ours:
		return c.unsynced(ctx)
	}
	return fmt.Errorf("%s has not synced: %w", informer.HasSyncedChecker().Name(), context.Cause(ctx))
}
