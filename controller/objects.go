package controller

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
)

// Objects is a Reconciler made of a function that wants the object instead of its
// name: a copy from the cache, or the server's where the kind bypasses the cache,
// which it may change. It is not called for an object
// that is gone; what is to be done before that is what finalizers are for.
func Objects[T object.Object](c *Client[T], reconcile func(ctx context.Context, o T) (Result, error)) Reconciler {
	if reconcile == nil {
		panic(failure.Place(1) + ": the function of a reconciler is nil")
	}
	return Func(func(ctx context.Context, req Request) (Result, error) {
		o, err := c.of.read(ctx, req.Key) // a source, so that the cache is synced
		switch {
		case apierrors.IsNotFound(err):
			return Result{}, nil
		case err != nil:
			return Result{}, err
		}
		return reconcile(ctx, copyOf(o.(T)))
	})
}
