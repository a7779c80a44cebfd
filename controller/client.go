package controller

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// Client reads the objects of one kind from an informer's cache and writes them
// to the server, so that a controller reads its own writes: what a reconcile
// writes through it, with the context that it was given, the cache holds when the
// same request is reconciled again. In between the request waits, if need be,
// without a worker, and no longer than Options.Patience.
//
// A write counts when its call has returned without an error before the reconcile
// does. A write that the server may or may not have done, because the connection
// broke, is not waited for: to meet a conflict or "already exists" is then to be
// expected.
//
// Outside of a reconcile a Client reads and writes without waiting. It may be
// used by many goroutines.
//
// A controller waits for the informers of its sources alone. One that reads other kinds
// too, and whose changes it need not hear of, makes a source of them all the same, so
// that their caches are synced before the first reconcile:
//
//	c.Watch(controller.MapFunc(secrets.Informer, func(*corev1.Secret) []controller.Request { return nil }))
//
// A kind may bypass the cache (factory.Options.DisableFor). Its client has no
// informer, Read asks the server, and nothing is to be waited for. What needs a
// cache, Get and Copy and sources, is then not to be had; Objects and
// CreateOrUpdate are.
type Client[T object.Object] struct {
	// Informer is what is read from. Sources are made of it. Nil for a kind that
	// bypasses the cache.
	*sharedinformer.Informer[T]
	resource *rest.Resource[T]
}

// NewClient returns a client that reads from an informer, or from the resource where
// that is nil, and writes to a resource, which must be of the same kind. What the informer does not select,
// because of its namespace or selector, is better written through Resource: the
// cache never gets such an object, and learns only from the next bookmark that it
// has missed nothing.
func NewClient[T object.Object](i *sharedinformer.Informer[T], r *rest.Resource[T]) *Client[T] {
	return &Client[T]{Informer: i, resource: r}
}

// ClientFor returns a client for the informer of a factory that factory.Informer
// returns for the same arguments, and counts as a user of it until
// factory.Release(f, client.Informer). For a kind that bypasses the cache it starts
// no informer.
func ClientFor[T object.Object](f *factory.Factory, of ...factory.For[T]) *Client[T] {
	resource := rest.ResourceFor[T](f.Client())
	if len(of) > 0 && !of[0].Kind.Empty() {
		resource = rest.ResourceForKind[T](f.Client(), of[0].Kind)
	}
	if f.Disabled(resource.Kind()) {
		return NewClient(nil, resource)
	}
	return NewClient(factory.Informer(f, of...), resource)
}

// Resource returns what is written to. What is written to it directly is not
// waited for.
func (c *Client[T]) Resource() *rest.Resource[T] { return c.resource }

// Mapping returns where the kind is served.
func (c *Client[T]) Mapping(ctx context.Context) (rest.Mapping, error) {
	return c.resource.Mapping(ctx)
}

// Cache returns the cache; for its ways to read see indexer.Reader. It panics for a
// kind that bypasses the cache.
func (c *Client[T]) Cache() indexer.Reader[T] {
	if c.Informer == nil {
		c.uncached()
	}
	return c.Informer.Cache()
}

func (c *Client[T]) uncached() {
	panic(fmt.Sprintf("%s: the cache is asked for, but the kind bypasses it (factory.Options.DisableFor): use Read, or Resource", c.resource))
}

// Read returns the object under key: the cached one, which is shared and must not be
// changed, or, of a kind that bypasses the cache, the server's. Where there is none
// it fails so that apierrors.IsNotFound says so, and where the cache is not synced,
// and may therefore not have it yet, with sharedinformer.ErrNotSynced and why. A kind
// that the server does not serve has no objects.
func (c *Client[T]) Read(ctx context.Context, key object.Key) (T, error) {
	var why error
	if c.Informer != nil && !c.HasSynced() && !notServed(c.Informer) {
		why = unsynced(c.Informer) // before the look: it may sync at any moment
	}
	o, err := c.read(ctx, key)
	if err != nil && why != nil {
		return o, fmt.Errorf("read %s: %w: %w", object.FormatKey(key), sharedinformer.ErrNotSynced, why)
	}
	return o, err
}

// read is Read from a cache that may be taken as it is.
func (c *Client[T]) read(ctx context.Context, key object.Key) (T, error) {
	if c.Informer == nil {
		return c.resource.Get(ctx, key, metav1.GetOptions{})
	}
	o, ok := c.Cache().Get(key)
	if !ok {
		kind := c.resource.Kind()
		return o, apierrors.NewNotFound(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, object.FormatKey(key))
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

// Create creates o; see rest.Resource.Create.
func (c *Client[T]) Create(ctx context.Context, o T, opts ...metav1.CreateOptions) (T, error) {
	opt := first(opts)
	return c.wrote(ctx, opt.DryRun)(c.resource.Create(ctx, o, opt))
}

// Update replaces an object; see rest.Resource.Update.
func (c *Client[T]) Update(ctx context.Context, o T, opts ...metav1.UpdateOptions) (T, error) {
	opt := first(opts)
	return c.wrote(ctx, opt.DryRun)(c.resource.Update(ctx, o, opt))
}

// UpdateStatus replaces the status of an object.
func (c *Client[T]) UpdateStatus(ctx context.Context, o T, opts ...metav1.UpdateOptions) (T, error) {
	opt := first(opts)
	return c.wrote(ctx, opt.DryRun)(c.resource.Subresource("status").Update(ctx, o, opt))
}

// Patch changes an object by a patch; see rest.Resource.Patch.
func (c *Client[T]) Patch(ctx context.Context, key object.Key, pt types.PatchType, patch []byte, opts ...metav1.PatchOptions) (T, error) {
	opt := first(opts)
	return c.wrote(ctx, opt.DryRun)(c.resource.Patch(ctx, key, pt, patch, opt))
}

// Apply sends o as a server-side apply in the name of a field manager: the fields
// that o has are set and owned by it, and those that it had owned and o lacks are
// removed. See rest.Resource.Apply. Conflicts with other managers are resolved in
// favour of o, as is right for a controller that has its fields to itself; to be
// told of them instead, use opts.
func (c *Client[T]) Apply(ctx context.Context, o T, manager string, opts ...metav1.ApplyOptions) (T, error) {
	opt := metav1.ApplyOptions{Force: true}
	if len(opts) > 0 {
		opt = opts[0]
	}
	opt.FieldManager = manager
	return c.wrote(ctx, opt.DryRun)(c.resource.Apply(ctx, o, opt))
}

// Delete deletes the object of o's key; see rest.Resource.Delete. The cache has
// seen it when it has no such object, or one of another UID, or one that is being
// deleted.
func (c *Client[T]) Delete(ctx context.Context, o T, opts ...metav1.DeleteOptions) error {
	opt := first(opts)
	key, uid := object.KeyOf(o), o.GetUID()
	if err := c.resource.Delete(ctx, key, opt); err != nil {
		return err
	}
	c.note(ctx, opt.DryRun, func() bool {
		cached, ok := c.Cache().Get(key)
		return !ok || uid != "" && cached.GetUID() != uid || cached.GetDeletionTimestamp() != nil
	})
	return nil
}

// wrote passes on the answer to a write, and notes its resource version.
func (c *Client[T]) wrote(ctx context.Context, dryRun []string) func(T, error) (T, error) {
	return func(o T, err error) (T, error) {
		if err == nil {
			version, namespace := o.GetResourceVersion(), o.GetNamespace()
			c.note(ctx, dryRun, func() bool {
				have := c.Cache().NamespaceRV(namespace)
				return have != "" && object.ReachedRV(have, version)
			})
		}
		return o, err
	}
}

// note makes the request that ctx belongs to wait until seen is true.
func (c *Client[T]) note(ctx context.Context, dryRun []string, seen func() bool) {
	if a := attemptOf(ctx); a != nil && len(dryRun) == 0 && c.Informer != nil {
		a.wrote(write{seen: seen, wait: c.WaitUntil})
	}
}

// first returns the options that were given, if any.
func first[O any](opts []O) (o O) {
	if len(opts) > 0 {
		o = opts[0]
	}
	return o
}
