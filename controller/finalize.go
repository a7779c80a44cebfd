package controller

import (
	"context"
	"fmt"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
)

// Finalize delays the deletion of o until cleanup is done. Call it at the start of each reconcile:
//
//	site, err := sites.Finalize(ctx, site, "example.com/dns", r.removeRecords)
//	if err != nil || site.DeletionTimestamp != nil {
//		return controller.Result{}, err
//	}
//
// If o is not being deleted and lacks the finalizer, Finalize adds it. If o is being deleted and has it,
// Finalize calls cleanup, and removes the finalizer if cleanup returns true and no error. If cleanup
// returns false, the finalizer is kept and the next reconcile calls cleanup again; Finalize itself does not
// schedule that reconcile. In all other cases Finalize does nothing. It returns the current object.
//
// cleanup gets a copy of o; changes to the copy are not written. It may be called again after it has
// succeeded, so it must be idempotent. Both writes carry o's resource version, so other controllers'
// finalizers are never lost; if o is not the latest version, Finalize fails with a conflict
// (apierrors.IsConflict), which the reconciler should return. If cleanup itself writes to o, for example to
// set a condition, removing the finalizer fails with a conflict, and the next reconcile calls cleanup
// again. cleanup must therefore eventually succeed without writing to o. If o no longer exists when
// Finalize adds the finalizer, it fails with a not-found error. Both writes are patches, so the controller
// needs permission to patch the kind. Finalize panics if cleanup is nil.
func (c *Client[T]) Finalize(ctx context.Context, o T, finalizer string, cleanup func(ctx context.Context, o T) (done bool, err error)) (T, error) {
	mustCleanUp(cleanup != nil)
	return as[T](c.plain().finalize(ctx, o, finalizer, func() (bool, error) { return cleanup(ctx, copyOf(o)) }))
}

func mustCleanUp(can bool) {
	if !can {
		panic(failure.Place(2) + ": the cleanup function passed to Finalize is nil")
	}
}

func (c *client) finalize(ctx context.Context, o object.Object, finalizer string, cleanup func() (bool, error)) (object.Object, error) {
	if err := c.given("finalize", o); err != nil {
		return o, err
	}
	if finalizer == "" {
		return o, fmt.Errorf("finalize %s %s: the finalizer is empty: use a name such as example.com/cleanup", c, object.FormatKey(object.KeyOf(o)))
	}
	deleted, has := o.GetDeletionTimestamp() != nil, HasFinalizer(o, finalizer)
	switch {
	case !deleted && !has:
		return c.patchFinalizer(ctx, o, func(o object.Object) { AddFinalizer(o, finalizer) })
	case !deleted || !has:
		return o, nil
	}
	was := copyOf(o) // copy o, because cleanup may remove the finalizer from it, leaving no difference to send
	if done, err := cleanup(); err != nil || !done {
		return o, err
	}
	released, err := c.patchFinalizer(ctx, was, func(o object.Object) { RemoveFinalizer(o, finalizer) })
	if failure.Missing(err) {
		return o, nil // another client has already removed it
	}
	return released, err
}

func (c *client) patchFinalizer(ctx context.Context, o object.Object, change func(object.Object)) (object.Object, error) {
	return c.patchBy(ctx, o, func(o object.Object) error { change(o); return nil }, true)
}
