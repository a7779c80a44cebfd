package controller

import (
	"context"
	"reflect"

	policyv1 "k8s.io/api/policy/v1"

	"github.com/millrace-dev/millrace/controller/internal/ownwrites"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/discovery"
	"github.com/millrace-dev/millrace/shard"
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
//	c.Watch(controller.Awaited(secrets))
//
// A kind may bypass the cache (factory.Options.DisableFor). Its client has no
// informer: Read, Objects and CreateOrUpdate ask the server, and nothing is waited
// for. Get and Copy panic, and a source cannot be made of it.
type Client[T object.Object] struct {
	served *rest.Resource[object.Object] // where the kind is served
	late   *late                         // which sets what follows at the first use; nil if it is set

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

	// parentWrites is called before a write to a subresource of the object under key. It returns a
	// function that says what the cache of the object has to see of the write, given the answer.
	// It is nil if the client is not that of a subresource.
	parentWrites func(key object.Key) func(answer object.Object) (w ownwrites.Write, ok bool)
}

// NewClient returns a client that reads from an informer, or from the resource where
// that is nil, and writes to a resource, which must be of the same kind. ClientFor is
// what most programs want; in one with a manager, manager.Client.
func NewClient[T object.Object](i *sharedinformer.Informer[T], r *rest.Resource[T]) *Client[T] {
	if i != nil && !i.Source().Kept.IsZero() {
		r = r.Keep(i.Source().Kept) // so that it does not write parts back either
	}
	plain := &client{informer: sharedinformer.Objects(i), resource: rest.Objects(r), declared: reflect.TypeFor[T]().String()}
	return &Client[T]{served: plain.resource, of: plain, informer: i, resource: r}
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
	resource := resourceOf(f, of)
	if f.Disabled(resource.Kind()) {
		return NewClient(nil, resource)
	}
	return NewClient(factory.InformerWith(f, of), resource)
}

func resourceOf[T object.Object](f *factory.Factory, of factory.For[T]) *rest.Resource[T] {
	if of.Kind.Empty() {
		return rest.ResourceFor[T](f.Client())
	}
	return rest.ResourceForKind[T](f.Client(), of.Kind)
}

// LateClient is ClientWith for a client that asks the factory for its informer at its first use, so that
// [Client.Shard] can narrow it before. It is for package manager, which uses each client before it runs.
func LateClient[T object.Object](f *factory.Factory, of factory.For[T]) *Client[T] {
	c := &Client[T]{served: rest.Objects(resourceOf(f, of))}
	c.late = &late{bind: func(s shard.Scope) { c.bind(f, of, s) }}
	return c
}

// bind asks the factory for the informer of a late client.
func (c *Client[T]) bind(f *factory.Factory, of factory.For[T], s shard.Scope) {
	of.Scope.Shard = narrowed(of.Scope.Shard, s)
	bound := ClientWith(f, of)
	c.of, c.informer, c.resource = bound.of, bound.informer, bound.resource
}

// plain returns c as a client of objects of any type.
func (c *Client[T]) plain() *client {
	c.late.use()
	return c.of
}

// Shard narrows the cache of a client of [LateClient] to a share of the objects. It fails if c is of
// another function, and if its informer is in use, as it is from the first index, source or read on,
// or has another share. It is for package manager; see manager.Builder.Sharded.
func (c *Client[T]) Shard(scope shard.Scope) error { return c.late.shard(c.served.String(), scope) }

// Kind returns the kind of the objects. It is empty if that is not known.
func (c *Client[T]) Kind() object.GVK { return c.served.Kind() }

// OwnedBy returns the client for the objects that owner controls. What it creates, updates, applies
// or makes by CreateOrUpdate gets owner as its controller, as by
// SetControllerReference with the scheme of the client: Owns finds it, and the garbage
// collector deletes it when owner is gone. Where that cannot be, the write fails, with an
// *AlreadyOwnedError where another object has it. It cannot be either where owner is nil.
// Patches, the status and deletions are as they were.
//
// owner is not changed. It may come from a cache.
func (c *Client[T]) OwnedBy(owner object.Object) *Client[T] {
	return &Client[T]{served: c.served, of: c.plain().ownedBy(owner), informer: c.Informer(), resource: c.Resource()}
}

func (c *client) ownedBy(owner object.Object) *client {
	owned := *c
	owned.owner, owned.owned = owner, true
	return &owned
}

// SubresourceFor returns a client for a subresource of what c writes to, whose body is of
// another type than the object: "scale" of type *autoscalingv1.Scale, "eviction" of
// *policyv1.Eviction, "binding" of *corev1.Binding. See rest.SubresourceFor.
//
//	scales := controller.SubresourceFor[*autoscalingv1.Scale](deployments, "scale")
//	scale, err := scales.Read(ctx, key)
//	_, err = controller.Patch(ctx, scales, scale, func(s *autoscalingv1.Scale) error { s.Spec.Replicas = 3; return nil })
//
// No cache has subresources: the client is as that of a kind that bypasses it, so that Read
// asks the server. What a reconcile writes through it is in the cache of c when the same
// request is reconciled again, as what it writes through c is: where the answer names a
// resource version, as that of a scale does; and for an eviction, as for Client.Delete. Of a
// binding the answer says no more than that it is done, so that the cache may have it later.
func SubresourceFor[S, T object.Object](c *Client[T], name string) *Client[S] {
	r := rest.SubresourceFor[S](c.Resource(), name)
	plain := &client{resource: rest.Objects(r), declared: reflect.TypeFor[S]().String(), parentWrites: c.of.writesBy(name)}
	return &Client[S]{served: plain.resource, of: plain, resource: r}
}

// writesBy returns client.parentWrites of a subresource of c, nil if the kind bypasses the cache.
func (c *client) writesBy(subresource string) func(object.Key) func(object.Object) (ownwrites.Write, bool) {
	if c.informer == nil {
		return nil
	}
	return func(key object.Key) func(object.Object) (ownwrites.Write, bool) {
		uid, cached := c.cache().UID(key)
		return func(o object.Object) (w ownwrites.Write, ok bool) {
			switch {
			case !cached: // it may never get there
				return w, false
			case o.GetResourceVersion() != "":
				return c.cache().Version(key, o.GetResourceVersion()), true
			case subresource == "eviction" && !isDryRun(o):
				return c.cache().Deletion(key, uid), true
			}
			return w, false
		}
	}
}

// isDryRun reports whether an eviction says so itself.
func isDryRun(o object.Object) bool {
	eviction, ok := o.(*policyv1.Eviction)
	return ok && eviction.DeleteOptions != nil && len(eviction.DeleteOptions.DryRun) > 0
}

// cache is where the next reconcile has to find the writes, for a kind that does not bypass it.
func (c *client) cache() ownwrites.Cache { return ownwrites.Of(c.informer) }

// Informer returns what is read from, and what sources are made of. It is nil for a
// kind that bypasses the cache.
func (c *Client[T]) Informer() *sharedinformer.Informer[T] {
	c.late.use()
	return c.informer
}

// Resource returns what is written to. What is written to it directly is not
// waited for. Where the cache keeps some fields, it reads and refuses as the client
// does; rest.ResourceFor has one that does not.
func (c *Client[T]) Resource() *rest.Resource[T] {
	c.late.use()
	return c.resource
}

// View implements Watchable: it returns the informer for those who need not know its type, nil for a
// kind that bypasses the cache.
func (c *Client[T]) View() sharedinformer.View { return c.plain().view() }

func (c *client) view() sharedinformer.View {
	if c.informer == nil {
		return nil
	}
	return c.informer.View()
}

// declaredType returns the type of the objects, as the program writes it.
func (c *Client[T]) declaredType() string { return c.plain().declared }

// Mapping returns where the kind is served.
func (c *Client[T]) Mapping(ctx context.Context) (discovery.Mapping, error) {
	return c.served.Mapping(ctx)
}

// String names the kind for messages.
func (c *Client[T]) String() string { return c.served.String() }

// String implements fmt.Stringer; see Client.String.
func (c *client) String() string { return c.resource.String() }
