package controller

import (
	"reflect"

	policyv1 "k8s.io/api/policy/v1"

	"github.com/millrace-dev/millrace/controller/internal/ownwrites"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
)

// SubresourceFor returns a client for a subresource of what c writes to, whose body is of
// another type than the object: "scale" of type *autoscalingv1.Scale, "eviction" of
// *policyv1.Eviction, "binding" of *corev1.Binding. See rest.SubresourceFor.
//
//	scales := controller.SubresourceFor[*autoscalingv1.Scale](deployments, "scale")
//	scale, err := scales.Read(ctx, key)
//	_, _, err = controller.Patch(ctx, scales, scale, func(s *autoscalingv1.Scale) error { s.Spec.Replicas = 3; return nil })
//
// No cache has subresources: the client is as that of a kind that bypasses it, so that Read
// asks the server. What a reconcile writes through it is in the cache of c when the same
// request is reconciled again, as what it writes through c is: where the answer names a
// resource version, as that of a scale does; and for an eviction, as for Client.Delete. Of a
// binding the answer says no more than that it is done, so that the cache may have it later.
func SubresourceFor[S, T object.Object](c *Client[T], name string) *Client[S] {
	r := rest.SubresourceFor[S](c.resource, name)
	return clientOf(nil, r, &client{resource: rest.Objects(r), declared: reflect.TypeFor[S]().String(), within: c.of.seen(name)})
}

// seen returns client.within of a subresource; nil if the kind bypasses the cache.
func (c *client) seen(subresource string) func(object.Key) func(object.Object) (ownwrites.Write, bool) {
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
