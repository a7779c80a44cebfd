package clientgo

import (
	"context"
	"fmt"

	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/sharedinformer"
)

// Status returns the status of an informer created by this package: its state and when that state began,
// its last failure, and each handler's progress. It returns false for other informers.
func Status(informer cache.SharedIndexInformer) (sharedinformer.Status, bool) {
	if c, ok := informer.GetController().(controller); ok { // the informer itself may be wrapped
		return c.status(), true
	}
	return sharedinformer.Status{}, false
}

// WaitForSync waits until the informer's store contains a complete list, ctx is done, or the informer has
// stopped. The error explains why it has not synced (L22). For client-go's own informers, the error contains
// no reason, and WaitForSync does not notice when they stop.
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
