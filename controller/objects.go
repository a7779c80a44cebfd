package controller

import (
	"context"

	"github.com/millrace-dev/millrace/object"
)

// Objects is a Reconciler made of a function that wants the object instead of its
// name: a copy from the cache, which it may change. It is not called for an object
// that is gone; what is to be done before that is what finalizers are for.
func Objects[T object.Object](c *Client[T], reconcile func(ctx context.Context, o T) (Result, error)) Reconciler {
	return Func(func(ctx context.Context, req Request) (Result, error) {
		o, ok := c.Copy(req.Key)
		if !ok {
			return Result{}, nil
		}
		return reconcile(ctx, o)
	})
}
