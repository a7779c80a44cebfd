package controller

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// Cache returns the cache; for its ways to read see indexer.Reader. It panics for a
// kind that bypasses the cache.
func (c *Client[T]) Cache() indexer.Reader[T] {
	c.plain().mustBeCached()
	return c.Informer().Cache()
}

func (c *client) mustBeCached() {
	if c.informer == nil {
		panic(fmt.Sprintf("%s: the cache is asked for, but the kind bypasses it (factory.Options.DisableFor): use Read, or Resource", c))
	}
}

// Read returns the object under key: the cached one, which is shared and must not be
// changed, or, of a kind that bypasses the cache, the server's. Where there is none
// it fails so that apierrors.IsNotFound says so. It fails otherwise where it cannot know:
//
//   - with sharedinformer.ErrNotSynced and why, if the cache does not have the list of the
//     namespace, and may not have the object yet;
//   - with sharedinformer.ErrNotWatched, where the cache has other namespaces. It is Terminal;
//   - with shard.ErrLost or shard.ErrMoved, where the objects are shared (factory.Scope.Shard), and
//     ctx is that of a reconcile whose slot, or whose object, may be another process's by now.
//
// A kind that the server does not serve has no objects.
func (c *Client[T]) Read(ctx context.Context, key object.Key) (T, error) {
	return as[T](c.plain().readWhole(ctx, key))
}

// as returns an object as one of type T.
func as[T object.Object](o object.Object, err error) (T, error) {
	typed, _ := o.(T)
	return typed, err
}

// readWhole is Client.Read.
func (c *client) readWhole(ctx context.Context, key object.Key) (object.Object, error) {
	var why error
	if c.informer != nil && !c.informer.HasSyncedIn(key.Namespace) && !notServed(c.informer) {
		why = c.informer.Unsynced() // before the look: it may sync at any moment
	}
	o, err := c.read(ctx, key)
	if err != nil && why != nil {
		return o, fmt.Errorf("read %s: %w: %w", object.FormatKey(key), sharedinformer.ErrNotSynced, c.unawaited(ctx, why))
	}
	if c.informer != nil && apierrors.IsNotFound(err) {
		if why := c.unknown(ctx, key); why != nil {
			return o, fmt.Errorf("read %s %s: %w", c, object.FormatKey(key), why)
		}
	}
	return o, err
}

// unawaited returns why a cache that is not synced is not, and, in a reconcile, how to have the controller
// wait for it: it waits for its sources alone.
func (c *client) unawaited(ctx context.Context, why error) error {
	if attemptOf(ctx) == nil {
		return why
	}
	if c.informer.Status().Reflector.State == reflector.Idle {
		why = fmt.Errorf("%s: the informer has only been asked for now", c)
	}
	return fmt.Errorf("%w; to have the controller wait for it, name the kind in Reads of manager.ControllerFor, or add the source controller.Awaited", why)
}

// unknown says why what a read in ctx did not find may be there all the same, nil if it is not. It
// is asked after the read: what the cache lets go of it has let go of before.
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

// read is Client.Read from a cache that may be taken as it is.
func (c *client) read(ctx context.Context, key object.Key) (object.Object, error) {
	if c.informer == nil {
		return c.resource.Get(ctx, key, metav1.GetOptions{})
	}
	c.mustBeCached()
	o, ok := c.informer.Cache().Get(key)
	if !ok {
		if head, is := c.informer.Heads().Get(key); is { // and cannot be opened
			return c.informer.Open(head)
		}
		kind := c.resource.Kind()
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, object.FormatKey(key))
	}
	return o, nil
}

// Get returns the cached object under key. It is shared and must not be changed.
// That there is none means nothing as long as the cache is not synced; see Client. For
// more ways to read see Cache.
func (c *Client[T]) Get(key object.Key) (o T, ok bool) { return c.Cache().Get(key) }

// Copy returns a copy of the cached object under key, which may be changed.
func (c *Client[T]) Copy(key object.Key) (o T, ok bool) {
	if o, ok = c.Cache().Get(key); ok {
		o = copyOf(o)
	}
	return o, ok
}

func copyOf[T object.Object](o T) T { return o.DeepCopyObject().(T) }

// Objects is a Reconciler made of a function that wants the object instead of its
// name: a copy from the cache, or the server's where the kind bypasses the cache,
// which it may change. It is not called for an object
// that is gone; what is to be done before that is what finalizers are for.
func Objects[T object.Object](c *Client[T], reconcile func(ctx context.Context, o T) (Result, error)) Reconciler {
	if reconcile == nil {
		panic(failure.Place(1) + ": the function of a reconciler is nil")
	}
	return Func(func(ctx context.Context, req Request) (Result, error) {
		o, err := c.plain().read(ctx, req.Key) // a source, so that the cache is synced
		switch {
		case apierrors.IsNotFound(err):
			return Result{}, nil
		case err != nil:
			return Result{}, err
		}
		return reconcile(ctx, copyOf(o.(T)))
	})
}
