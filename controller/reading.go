package controller

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// Cache returns the cache. The objects are shared and must not be modified; to modify one, use
// [Client.Copy]. factory.Options.DetectMutations finds violations. Cache panics if the kind bypasses the
// cache.
func (c *Client[T]) Cache() indexer.Reader[T] {
	c.plain().mustBeCached()
	return c.Informer().Cache()
}

func (c *client) mustBeCached() {
	if c.informer == nil {
		panic(fmt.Sprintf("%s: there is no cache, because the kind bypasses it (factory.Options.DisableFor): use Read or Resource", c))
	}
}

// Read returns the cached object under key, which is shared and must not be modified. If the kind
// bypasses the cache, Read gets the object from the server. If there is no such object, or the server
// does not serve the kind, the error satisfies apierrors.IsNotFound. If it is unknown whether the object
// exists, Read fails
//
//   - with sharedinformer.ErrNotSynced and the reason, if the cache has not received the list of the
//     namespace and may lack the object;
//   - with sharedinformer.ErrNotWatched if the cache does not include the namespace; this error is
//     Terminal;
//   - with shard.ErrLost or shard.ErrMoved if objects are sharded (factory.Scope.Shard), ctx
//     belongs to a reconcile, and another process may have taken over its slot or object.
func (c *Client[T]) Read(ctx context.Context, key object.Key) (T, error) {
	return as[T](c.plain().readWhole(ctx, key))
}

// as converts an object to type T.
func as[T object.Object](o object.Object, err error) (T, error) {
	typed, _ := o.(T)
	return typed, err
}

// readWhole implements Client.Read.
func (c *client) readWhole(ctx context.Context, key object.Key) (object.Object, error) {
	// Check before the lookup, because the cache may sync, and may get the namespace, at any time.
	var why error
	watched := c.informer == nil || c.informer.Watches(key.Namespace)
	if c.informer != nil && !c.informer.HasSyncedIn(key.Namespace) && !notServedIn(c.informer, key.Namespace) {
		why = c.unawaited(ctx)
	}
	o, err := c.read(ctx, key)
	if err != nil && why != nil {
		return o, fmt.Errorf("read %s: %w: %w", object.FormatKey(key), sharedinformer.ErrNotSynced, why)
	}
	if c.informer != nil && apierrors.IsNotFound(err) {
		if why := c.unknown(ctx, key); why != nil {
			return o, fmt.Errorf("read %s %s: %w", c, object.FormatKey(key), why)
		}
		if !watched {
			return o, fmt.Errorf("read %s %s: %w: the namespace was added only now", c, object.FormatKey(key), sharedinformer.ErrNotSynced)
		}
	}
	return o, err
}

// unawaited returns an error explaining why the cache is not synced and, in a reconcile, how to make the
// controller wait for it, or nil if it is synced by now.
func (c *client) unawaited(ctx context.Context) error {
	if attemptOf(ctx) == nil {
		return c.informer.Unsynced()
	}
	s := c.informer.Status().Reflector // before Unsynced, because the informer may start at any time
	why := c.informer.Unsynced()
	if why == nil {
		return nil
	}
	if s.State == reflector.Idle || s.Failure == nil && time.Since(s.Since) < time.Second {
		why = fmt.Errorf("%s: the informer has only just been requested", c)
	}
	return fmt.Errorf("%w; to make the controller wait for it, pass the kind to Reads of manager.ControllerFor, or add the source controller.Awaited", why)
}

// unknown returns an error explaining why an object that was not found may still exist, or nil if it does
// not exist. Call it after the read, so that it accounts for everything dropped from the cache by then.
func (c *client) unknown(ctx context.Context, key object.Key) error {
	if !c.informer.Watches(key.Namespace) {
		return Terminal(sharedinformer.ErrNotWatched)
	}
	a := attemptOf(ctx)
	if a == nil || a.slot == nil || c.informer.Scope().Share != a.slot.Share {
		return nil
	}
	return a.slot.lacks(c.informer, key)
}

// read is like Client.Read but does not check whether the cache is complete.
func (c *client) read(ctx context.Context, key object.Key) (object.Object, error) {
	if c.informer == nil {
		return c.resource.Get(ctx, key, metav1.GetOptions{})
	}
	c.mustBeCached()
	o, ok := c.informer.Cache().Get(key)
	if !ok {
		if head, is := c.informer.Heads().Get(key); is { // cached, but corrupted
			return c.informer.Open(head)
		}
		kind := c.resource.Kind()
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, object.FormatKey(key))
	}
	return o, nil
}

// Get returns the cached object under key, which is shared and must not be modified. A missing object may still
// exist: while the cache is not synced (see Client), or if the informer does not watch the namespace, perhaps because
// SetNamespaces removed it. Before you act on a deletion, use [Client.Read], which fails in both cases. For more ways
// to read, see [Client.Cache].
func (c *Client[T]) Get(key object.Key) (o T, ok bool) { return c.Cache().Get(key) }

// Copy returns a copy of the cached object under key. The caller may modify it.
func (c *Client[T]) Copy(key object.Key) (o T, ok bool) {
	if o, ok = c.Cache().Get(key); ok {
		o = copyOf(o)
	}
	return o, ok
}

func copyOf[T object.Object](o T) T { return o.DeepCopyObject().(T) }

// Objects returns a Reconciler that calls reconcile with a copy of the object, from the cache or, if
// the kind bypasses it, from the server. It is not called for deleted objects; use a finalizer to
// clean up before a deletion.
func Objects[T object.Object](c *Client[T], reconcile func(ctx context.Context, o T) (Result, error)) Reconciler {
	if reconcile == nil {
		panic(failure.Place(1) + ": the reconciler's function is nil")
	}
	return Func(func(ctx context.Context, req Request) (Result, error) {
		o, err := c.plain().read(ctx, req.Key) // no need to wait: c is a source, so its cache is synced
		switch {
		case failure.Missing(err):
			return Result{}, nil
		case err != nil:
			return Result{}, err
		}
		return reconcile(ctx, copyOf(o.(T)))
	})
}
