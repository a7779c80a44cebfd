package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
)

// Create creates o; see rest.Resource.Create.
func (c *Client[T]) Create(ctx context.Context, o T) (T, error) {
	return c.CreateWith(ctx, o, metav1.CreateOptions{})
}

// CreateWith is Create with options.
func (c *Client[T]) CreateWith(ctx context.Context, o T, opts metav1.CreateOptions) (T, error) {
	return as[T](c.plain().create(ctx, o, opts))
}

func (c *client) create(ctx context.Context, o object.Object, opts metav1.CreateOptions) (object.Object, error) {
	if err := c.given("create", o); err != nil {
		return o, err
	}
	o, err := c.adopt(o)
	if err != nil {
		return o, err
	}
	return c.wrote(ctx, object.KeyOf(o), "", opts.DryRun)(c.resource.Create(ctx, o, opts))
}

// Update replaces an object; see rest.Resource.Update. It fails if the cache contains partial
// (factory.For.Keep) or transformed objects, because sending such an object would erase the missing fields.
// Use [Client.Patch] or [Client.Apply] instead.
func (c *Client[T]) Update(ctx context.Context, o T) (T, error) {
	return c.UpdateWith(ctx, o, metav1.UpdateOptions{})
}

// UpdateWith is Update with options.
func (c *Client[T]) UpdateWith(ctx context.Context, o T, opts metav1.UpdateOptions) (T, error) {
	return as[T](c.plain().update(ctx, o, opts))
}

func (c *client) update(ctx context.Context, o object.Object, opts metav1.UpdateOptions) (object.Object, error) {
	if err := c.whole("update", o); err != nil {
		return o, err
	}
	o, err := c.adopt(o)
	if err != nil {
		return o, err
	}
	return c.wrote(ctx, object.KeyOf(o), o.GetResourceVersion(), opts.DryRun)(c.resource.Update(ctx, o, opts))
}

// UpdateStatus replaces an object's status. It rejects the same objects as [Client.Update], because the
// request includes labels and annotations.
func (c *Client[T]) UpdateStatus(ctx context.Context, o T) (T, error) {
	return c.UpdateStatusWith(ctx, o, metav1.UpdateOptions{})
}

// UpdateStatusWith is UpdateStatus with options.
func (c *Client[T]) UpdateStatusWith(ctx context.Context, o T, opts metav1.UpdateOptions) (T, error) {
	return as[T](c.plain().updateStatus(ctx, o, opts))
}

func (c *client) updateStatus(ctx context.Context, o object.Object, opts metav1.UpdateOptions) (object.Object, error) {
	if err := c.whole("update the status of", o); err != nil {
		return o, err
	}
	return c.wrote(ctx, object.KeyOf(o), o.GetResourceVersion(), opts.DryRun)(c.resource.Subresource("status").Update(ctx, o, opts))
}

// Patch sends a patch; see rest.Resource.Patch. To compute the patch from changes to a copy of the
// object, use the function [Patch].
func (c *Client[T]) Patch(ctx context.Context, key object.Key, pt types.PatchType, patch []byte) (T, error) {
	return c.PatchWith(ctx, key, pt, patch, metav1.PatchOptions{})
}

// PatchWith is Patch with options.
func (c *Client[T]) PatchWith(ctx context.Context, key object.Key, pt types.PatchType, patch []byte, opts metav1.PatchOptions) (T, error) {
	return as[T](c.plain().patch(ctx, key, pt, patch, opts))
}

func (c *client) patch(ctx context.Context, key object.Key, pt types.PatchType, patch []byte, opts metav1.PatchOptions) (object.Object, error) {
	return c.wrote(ctx, key, "", opts.DryRun)(c.resource.Patch(ctx, key, pt, patch, opts))
}

// Apply sends o as a server-side apply by a field manager, which then owns the fields present in o. Fields
// that the manager owned before and that are missing from o are removed. See rest.Resource.Apply. Conflicts
// with other managers are resolved in favor of o, which is right for a controller that does not share its
// fields; use [Client.ApplyWith] to get an error instead. Set only the fields in o that you want to own. If
// the cache contains partial objects, Apply, like Update, rejects objects that were read from it.
func (c *Client[T]) Apply(ctx context.Context, o T, manager string) (T, error) {
	return c.ApplyWith(ctx, o, metav1.ApplyOptions{FieldManager: manager, Force: true})
}

// ApplyWith is Apply with options, which must specify the field manager. Without Force, a conflict with
// another manager is an error (apierrors.IsConflict).
func (c *Client[T]) ApplyWith(ctx context.Context, o T, opts metav1.ApplyOptions) (T, error) {
	return as[T](c.plain().apply(ctx, o, opts))
}

func (c *client) apply(ctx context.Context, o object.Object, opts metav1.ApplyOptions) (object.Object, error) {
	if err := c.given("apply", o); err != nil {
		return o, err
	}
	if o.GetUID() != "" { // it was read
		if err := c.whole("apply", o); err != nil {
			return o, err
		}
	}
	o, err := c.adopt(o)
	if err != nil {
		return o, err
	}
	applied, err := c.wrote(ctx, object.KeyOf(o), o.GetResourceVersion(), opts.DryRun)(c.resource.Apply(ctx, o, opts))
	return applied, c.disowned(ctx, o, err)
}

// Delete deletes the object with o's key; see rest.Resource.Delete. The cache has seen the deletion once it
// no longer contains the object, contains one with a different UID, or contains the object marked as being
// deleted. If o has no UID, the UID in the server's response is used.
func (c *Client[T]) Delete(ctx context.Context, o T) error {
	return c.DeleteWith(ctx, o, metav1.DeleteOptions{})
}

// DeleteWith is Delete with options, such as a precondition.
func (c *Client[T]) DeleteWith(ctx context.Context, o T, opts metav1.DeleteOptions) error {
	return c.plain().delete(ctx, o, opts)
}

func (c *client) delete(ctx context.Context, o object.Object, opts metav1.DeleteOptions) error {
	if err := c.given("delete", o); err != nil {
		return err
	}
	key := c.complete(object.KeyOf(o))
	a := attemptOf(ctx)
	if a == nil || len(opts.DryRun) > 0 || c.informer == nil {
		return c.resource.Delete(ctx, key, opts)
	}
	cached := c.cache().UID(key)
	deleted, err := c.resource.DeleteAnswered(ctx, key, opts)
	if err != nil {
		if p := opts.Preconditions; p != nil && p.ResourceVersion != nil && conflicts(err, key) {
			a.writes.Add(c.cache().Conflict(key, *p.ResourceVersion))
		}
		return err
	}
	if deleted.Object != nil { // the object is also missing from a cache that has not seen its creation yet
		a.writes.Answered(c.cache(), deleted.Object, c.resource.Kind())
	}
	a.writes.Add(c.cache().Deletion(key, cmp.Or(deleted.UID, o.GetUID(), cached)))
	return nil
}

// wrote is called before a write to the object under key. It returns a function that takes the server's
// response, records what the cache must see before the request's next reconcile, and returns the
// response. If the write carries a resource version and fails with a conflict, the cache must see
// another version.
func (c *client) wrote(ctx context.Context, key object.Key, sent string, dryRun []string) func(object.Object, error) (object.Object, error) {
	a := attemptOf(ctx)
	if a == nil || len(dryRun) > 0 {
		return func(o object.Object, err error) (object.Object, error) { return o, err }
	}
	key = c.complete(key)
	ofParent := func(object.Object) {}
	if c.parentWrites != nil {
		ofParent = c.parentWrites(&a.writes, key)
	}
	return func(o object.Object, err error) (object.Object, error) {
		if err != nil {
			if c.informer != nil && sent != "" && conflicts(err, key) {
				a.writes.Add(c.cache().Conflict(key, sent))
			}
			return o, err
		}
		ofParent(o)
		if c.informer != nil {
			a.writes.Answered(c.cache(), o, c.resource.Kind())
		}
		return o, nil
	}
}

// complete returns the key in the resource's namespace if it has none, as a request does.
func (c *client) complete(key object.Key) object.Key {
	if key.Namespace == "" {
		key.Namespace = c.resource.Source().Describe().Namespace
	}
	return key
}

// conflicts reports whether err is a conflict on the object under key. Conflicts over something else, such
// as a quota, are unrelated to the object's version.
func conflicts(err error, key object.Key) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && apierrors.IsConflict(status) && status.ErrStatus.Details != nil && status.ErrStatus.Details.Name == key.Name
}

// given returns an error if o is nil.
func (c *client) given(verb string, o object.Object) error {
	if absent(o) {
		return fmt.Errorf("%s %s: the object is nil", verb, c)
	}
	return nil
}

// whole returns an error if o is nil, or if it comes from a cache that does not contain whole objects,
// because sending it back would erase the missing fields.
func (c *client) whole(verb string, o object.Object) error {
	if err := c.given(verb, o); err != nil || c.informer == nil {
		return err
	}
	has := ""
	switch kept := c.informer.Source().Kept; {
	case c.informer.Source().Altered:
		has = "the output of a transform"
	case !kept.Whole():
		has = kept.String()
	default:
		return nil
	}
	return fmt.Errorf("%s %s %s: the cache contains %s, which would replace the whole object: use Patch or Apply", verb, c, object.FormatKey(object.KeyOf(o)), has)
}

// adopt returns o with the client's owner as its controller, copying o if it has to be modified.
func (c *client) adopt(o object.Object) (object.Object, error) {
	if !c.owned || absent(o) || !absent(c.owner) && Controls(c.owner, o) {
		return o, nil // the write itself rejects a nil object
	}
	adopted := copyOf(o)
	if err := SetControllerReference(c.owner, adopted, c.resource.Client().Scheme()); err != nil {
		return o, err
	}
	return adopted, nil
}

// disowned returns the error for a failed apply of o. If the server rejected a second controller,
// disowned looks up the first one, because the o that the caller built does not include it.
func (c *client) disowned(ctx context.Context, o object.Object, err error) error {
	if !c.owned || !apierrors.HasStatusCause(err, metav1.CauseTypeFieldValueInvalid) {
		return err
	}
	there, failed := c.resource.Get(ctx, object.KeyOf(o), metav1.GetOptions{})
	if failed != nil {
		return err
	}
	other := metav1.GetControllerOfNoCopy(there)
	if other == nil || other.UID == c.owner.GetUID() {
		return err
	}
	return &AlreadyOwnedError{Object: there, Owner: *other}
}
