package controller

import (
	"context"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace-dev/millrace/controller/internal/ownwrites"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/discovery"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// Client reads the objects of one kind from an informer's cache and writes them
// to the server, so that a controller reads its own writes: what a reconcile
// writes through it, with the context that it was given, the cache holds when the
// same request is reconciled again. In between the request waits, if need be,
// without a worker, and no longer than Options.Patience.
//
// A write counts when its call has returned without an error before the reconcile
// does. After a conflict the request waits until the cache has another version of the object
// than the one that was sent. A write that the server may or may not have done, because the connection
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
//	c.Watch(secrets.Awaited())
//
// A kind may bypass the cache (factory.Options.DisableFor). Its client has no
// informer: Read, Objects and CreateOrUpdate ask the server, and nothing is waited
// for. Get and Copy panic, and a source cannot be made of it.
type Client[T object.Object] struct {
	of       *client
	informer *sharedinformer.Informer[T] // nil for a kind that bypasses the cache
	resource *rest.Resource[T]
}

// client is a Client of objects of any type.
type client struct {
	informer *sharedinformer.Informer[object.Object] // nil for a kind that bypasses the cache
	resource *rest.Resource[object.Object]
	declared string        // what the program calls the objects
	owned    bool          // what is written is to have owner
	owner    object.Object // may be nil all the same, by mistake

	// within is called before a write to a subresource of the object under key. It returns a
	// function that says what the cache of the object has to see of the write, given the answer.
	// It is nil if the client is not that of a subresource.
	within func(key object.Key) func(answer object.Object) (w ownwrites.Write, ok bool)
}

// NewClient returns a client that reads from an informer, or from the resource where
// that is nil, and writes to a resource, which must be of the same kind. ClientFor is
// what most programs want.
func NewClient[T object.Object](i *sharedinformer.Informer[T], r *rest.Resource[T]) *Client[T] {
	if i != nil && !i.Kept().IsZero() {
		r = r.Keep(i.Kept()) // so that it does not write parts back either
	}
	return clientOf(i, r, &client{informer: sharedinformer.Objects(i), resource: rest.Objects(r), declared: reflect.TypeFor[T]().String()})
}

func clientOf[T object.Object](i *sharedinformer.Informer[T], r *rest.Resource[T], plain *client) *Client[T] {
	return &Client[T]{of: plain, informer: i, resource: r}
}

// ClientFor returns a client for the informer that factory.Informer returns. For
// a kind that bypasses the cache it starts no informer. To have one that stops, give
// NewClient what factory.Borrow returns.
func ClientFor[T object.Object](f *factory.Factory) *Client[T] {
	return ClientWith(f, factory.For[T]{})
}

// ClientWith is ClientFor for one of several informers of a type, or for a kind that
// the type does not tell.
func ClientWith[T object.Object](f *factory.Factory, of factory.For[T]) *Client[T] {
	resource := rest.ResourceFor[T](f.Client())
	if !of.Kind.Empty() {
		resource = rest.ResourceForKind[T](f.Client(), of.Kind)
	}
	if f.Disabled(resource.Kind()) {
		return NewClient(nil, resource)
	}
	return NewClient(factory.InformerWith(f, of), resource)
}

// Informer returns what is read from, and what sources are made of. It is nil for a
// kind that bypasses the cache.
func (c *Client[T]) Informer() *sharedinformer.Informer[T] { return c.informer }

// Resource returns what is written to. What is written to it directly is not
// waited for. Where the cache keeps some fields, it reads and refuses as the client
// does; rest.ResourceFor has one that does not.
func (c *Client[T]) Resource() *rest.Resource[T] { return c.resource }

// Watchable is a kind of objects that a cache has, whatever its type: a *Client.
type Watchable interface {
	Kind
	// Owned is the source that Owns makes for owner.
	Owned(owner Kind) Source
	// Awaited is a source that asks for nothing and is waited for.
	Awaited() Source
}

// Owned is the source Owns(c.Informer(), owner).
func (c *Client[T]) Owned(owner Kind) Source {
	return ownersSource(c.of.informer, c.of.declared, owner, controls, filter{})
}

// Awaited returns a source that asks for nothing and is waited for all the same: of a
// kind that reconciles read, and whose changes lead to none.
func (c *Client[T]) Awaited() Source {
	return handleSource(c.of.informer, c.of.declared, addNothing, filter{})
}

// Mapping returns where the kind is served.
func (c *Client[T]) Mapping(ctx context.Context) (discovery.Mapping, error) {
	return c.resource.Mapping(ctx)
}

// String names the kind for messages.
func (c *Client[T]) String() string { return c.of.String() }

// String implements fmt.Stringer; see Client.String.
func (c *client) String() string { return c.resource.String() }

// Cache returns the cache; for its ways to read see indexer.Reader. It panics for a
// kind that bypasses the cache.
func (c *Client[T]) Cache() indexer.Reader[T] {
	c.of.mustBeCached()
	return c.informer.Cache()
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
	return as[T](c.of.readWhole(ctx, key))
}

// cache is what the next reconcile has to find the writes in, for a kind that does not bypass it.
func (c *client) cache() ownwrites.Cache { return ownwrites.Of(c.informer) }

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
		return o, fmt.Errorf("read %s: %w: %w", object.FormatKey(key), sharedinformer.ErrNotSynced, why)
	}
	if c.informer != nil && apierrors.IsNotFound(err) {
		if why := c.unknown(ctx, key); why != nil {
			return o, fmt.Errorf("read %s %s: %w", c, object.FormatKey(key), why)
		}
	}
	return o, err
}

// unknown says why what a read in ctx did not find may be there all the same, nil if it is not. It
// is asked after the read: what the cache lets go of it has let go of before.
func (c *client) unknown(ctx context.Context, key object.Key) error {
	if !c.informer.Watches(key.Namespace) {
		return Terminal(sharedinformer.ErrNotWatched)
	}
	w := workOf(ctx)
	if w == nil || c.informer.Scope().Share != w.Share {
		return nil
	}
	return w.lacks(c.informer, key)
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
