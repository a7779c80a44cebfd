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

// Client reads objects of one kind from an informer's cache and writes them to the server.
//
// A controller reads its own writes: if a reconcile writes through a Client, using the context it
// received, the next reconcile of that request finds the write in the cache. Until the cache catches up,
// the request is parked and occupies no worker. If the cache has not caught up after Options.Patience,
// 10 s by default, the request is reconciled with the stale cache and counted in Status.Stale.
//
// This covers writes that return without an error before the reconcile does. It does not cover writes made
// through [Client.Resource] or through clients of other packages, and other requests do not wait. After a
// conflict, the request waits until the cache has a version of the object other than the one that was sent.
// If the connection breaks, the server may or may not have applied the write. The request does not wait for
// that write, and the next reconcile may get a conflict or an "already exists" error.
//
// Outside a reconcile, a Client reads and writes without waiting. It is safe for concurrent use.
//
// A controller waits only for the informers of its sources. If a reconciler reads another kind without
// reacting to its changes, add it as a source, so its cache is synced before the first reconcile:
//
//	c.Watch(controller.Awaited(secrets))
//
// A Client for a kind that bypasses the cache (factory.Options.DisableFor) has no informer. Its Read,
// Objects and CreateOrUpdate query the server, and no request waits for its writes. Get and Copy panic,
// and sources created from it fail.
type Client[T object.Object] struct {
	served *rest.Resource[object.Object] // the resource that serves the kind
	late   *late                         // sets the fields below on first use; nil if they are set

	of       *client
	informer *sharedinformer.Informer[T] // nil if the kind bypasses the cache
	resource *rest.Resource[T]
}

// client is the untyped form of Client.
type client struct {
	informer *sharedinformer.Informer[object.Object] // nil if the kind bypasses the cache
	resource *rest.Resource[object.Object]
	declared string        // the type of the objects as declared in the program
	owned    bool          // writes set owner as the controller
	owner    object.Object // may be nil

	// parentWrites is called before a write to a subresource of the object under key. The function it
	// returns takes the server's response and adds the write that the cache must see. parentWrites is nil
	// unless the resource is a subresource.
	parentWrites func(writes *ownwrites.Writes, key object.Key) func(answer object.Object)
}

// NewClient returns a client that reads from an informer and writes to a resource of the same kind. If i
// is nil, the client also reads from the resource. Most programs should use [ClientFor] instead, or
// manager.Client if they have a manager.
func NewClient[T object.Object](i *sharedinformer.Informer[T], r *rest.Resource[T]) *Client[T] {
	if i != nil && !i.Source().Kept.IsZero() {
		r = r.Keep(i.Source().Kept) // so that it refuses to write partial objects back
	}
	plain := &client{informer: sharedinformer.Objects(i), resource: rest.Objects(r), declared: reflect.TypeFor[T]().String()}
	return &Client[T]{served: plain.resource, of: plain, informer: i, resource: r}
}

// ClientFor returns a client that reads from the informer returned by factory.Informer. If the kind
// bypasses the cache, no informer is started. For an informer that can be stopped, pass the result of
// factory.Borrow to [NewClient].
func ClientFor[T object.Object](f *factory.Factory) *Client[T] {
	return ClientWith(f, factory.For[T]{})
}

// ClientWith is like ClientFor; of selects among several informers for a type, or specifies the kind if
// the type does not determine it.
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

// LateClient is like [ClientWith], but requests its informer from the factory on first use, so that
// [Client.Shard] can still narrow the cache. Package manager needs this because it creates clients before
// it runs.
func LateClient[T object.Object](f *factory.Factory, of factory.For[T]) *Client[T] {
	c := &Client[T]{served: rest.Objects(resourceOf(f, of))}
	c.late = &late{bind: func(s shard.Scope) { c.bind(f, of, s) }, scope: of.Scope.Shard}
	return c
}

// bind requests a late client's informer from the factory.
func (c *Client[T]) bind(f *factory.Factory, of factory.For[T], s shard.Scope) {
	of.Scope.Shard = s
	bound := ClientWith(f, of)
	c.of, c.informer, c.resource = bound.of, bound.informer, bound.resource
}

// plain returns the untyped client.
func (c *Client[T]) plain() *client {
	c.late.use()
	return c.of
}

// Shard narrows the cache of a client created by [LateClient] to a share of the objects. It fails if the
// client was created in another way, if the informer already has a different share, or if the informer is
// already in use, that is, after the first index, source or read. Package manager calls it; see
// manager.Builder.Sharded.
func (c *Client[T]) Shard(scope shard.Scope) error { return c.late.shard(c.served.String(), scope) }

// Kind returns the kind of the objects, or the empty kind if unknown.
func (c *Client[T]) Kind() object.GVK { return c.served.Kind() }

// OwnedBy returns a client for objects controlled by owner. When objects are created, updated or applied
// through it, including by CreateOrUpdate, the client sets owner as their controller, as
// [SetControllerReference] does with the client's scheme. That way [Owns] finds them, and the garbage
// collector deletes them once owner is deleted. The write fails with an *AlreadyOwnedError if something
// else controls the object, and with a different error if owner is nil or cannot be an owner. Patches,
// status updates and deletions are unaffected.
//
// owner is not modified, so it may come from a cache.
func (c *Client[T]) OwnedBy(owner object.Object) *Client[T] {
	return &Client[T]{served: c.served, of: c.plain().ownedBy(owner), informer: c.Informer(), resource: c.Resource()}
}

func (c *client) ownedBy(owner object.Object) *client {
	owned := *c
	owned.owner, owned.owned = owner, true
	return &owned
}

// SubresourceFor returns a client for a subresource of c's kind whose body has its own type: "scale"
// of type *autoscalingv1.Scale, "eviction" of *policyv1.Eviction, "binding" of *corev1.Binding. See
// rest.SubresourceFor.
//
//	scales := controller.SubresourceFor[*autoscalingv1.Scale](deployments, "scale")
//	scale, err := scales.Read(ctx, key)
//	_, err = controller.Patch(ctx, scales, scale, func(s *autoscalingv1.Scale) error { s.Spec.Replicas = 3; return nil })
//
// Subresources are not cached, so Read queries the server. As with writes through c, the request's next
// reconcile finds the write in c's cache, provided that the server's response has a resource version (as it
// does for a scale) or the write is an eviction, which is treated like a [Client.Delete]. The response to a
// binding has no resource version, so the next reconcile may start before the binding reaches the cache. The
// same holds for a write to an object that c's cache has not received yet, unless the same reconcile created it.
func SubresourceFor[S, T object.Object](c *Client[T], name string) *Client[S] {
	r := rest.SubresourceFor[S](c.Resource(), name)
	plain := &client{resource: rest.Objects(r), declared: reflect.TypeFor[S]().String(), parentWrites: c.of.writesBy(name)}
	return &Client[S]{served: plain.resource, of: plain, resource: r}
}

// writesBy returns client.parentWrites for a subresource of c, or nil if the kind bypasses the cache.
func (c *client) writesBy(subresource string) func(*ownwrites.Writes, object.Key) func(object.Object) {
	if c.informer == nil {
		return nil
	}
	return func(writes *ownwrites.Writes, key object.Key) func(object.Object) {
		uid, held := writes.Held(c.cache(), key)
		return func(o object.Object) {
			switch {
			case !held: // the object may never reach the cache
			case o.GetResourceVersion() != "":
				writes.Add(c.cache().Version(key, o.GetResourceVersion()))
			case subresource == "eviction" && !isDryRun(o):
				writes.Add(c.cache().Deletion(key, uid))
			}
		}
	}
}

// isDryRun reports whether an eviction's body requests a dry run.
func isDryRun(o object.Object) bool {
	eviction, ok := o.(*policyv1.Eviction)
	return ok && eviction.DeleteOptions != nil && len(eviction.DeleteOptions.DryRun) > 0
}

// cache returns the cache that must see the writes. It must not be called if the kind bypasses the
// cache.
func (c *client) cache() ownwrites.Cache { return ownwrites.Of(c.informer) }

// Informer returns the informer that c reads from, or nil if the kind bypasses the cache.
func (c *Client[T]) Informer() *sharedinformer.Informer[T] {
	c.late.use()
	return c.informer
}

// Resource returns the resource that c writes to. Requests do not wait for writes made directly through the
// resource. If the cache keeps only some fields, the resource returns only those fields and rejects the
// same writes as c. For a resource without these limits, use rest.ResourceFor.
func (c *Client[T]) Resource() *rest.Resource[T] {
	c.late.use()
	return c.resource
}

// View implements [Watchable]: it returns the untyped informer, or nil if the kind bypasses the cache.
func (c *Client[T]) View() sharedinformer.View { return c.plain().view() }

func (c *client) view() sharedinformer.View {
	if c.informer == nil {
		return nil
	}
	return c.informer.View()
}

// declaredType returns the type of the objects as declared in the program.
func (c *Client[T]) declaredType() string { return c.plain().declared }

// Mapping returns the REST mapping of the kind.
func (c *Client[T]) Mapping(ctx context.Context) (discovery.Mapping, error) {
	return c.served.Mapping(ctx)
}

// String returns the kind's name for messages.
func (c *Client[T]) String() string { return c.served.String() }

func (c *client) String() string { return c.resource.String() }
