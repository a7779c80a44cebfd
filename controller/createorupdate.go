package controller

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
)

// Outcome is the outcome of a [CreateOrUpdate] call.
type Outcome string

// Outcomes of [CreateOrUpdate].
const (
	Unchanged Outcome = "unchanged"
	DidCreate Outcome = "created"
	DidUpdate Outcome = "updated"
)

// CreateOrUpdate calls change on the object and writes the result, creating the object if it does not
// exist. If c finds an object with o's key, change gets a copy of it, and CreateOrUpdate writes that
// copy if change modified it. Otherwise change gets a copy of o, and CreateOrUpdate creates it.
// CreateOrUpdate returns the current object; if nothing was written, the object is shared with the cache
// and must not be modified.
//
// change must modify its argument; modifying o itself is an error. It must not change the name or
// namespace, and must touch only the fields it manages. In particular, it must not clear fields that the
// server defaults, or every reconcile would write the object. The status is not written if the kind has a
// status subresource. With [Client.Apply], the server takes care of all this. If c was returned by
// [Client.OwnedBy], CreateOrUpdate adds the owner.
//
// It fails if the object has no name, or if [Client.Update] rejects the object.
//
// If the cache lags behind writes by other clients, the server responds with a conflict or "already
// exists". The reconciler should return that error, so that it is called again with a newer cache; after
// a conflict, the request waits until the cache has another version.
func CreateOrUpdate[T object.Object](ctx context.Context, c *Client[T], o T, change func(T) error) (T, Outcome, error) {
	mustChange(change)
	return did[T](c.plain().createOrUpdate(ctx, o, onObjects(change)))
}

// mustChange panics if change is nil. Exported functions call it directly, because the panic message
// includes their caller's file and line.
func mustChange[T object.Object](change func(T) error) {
	if change == nil {
		panic(failure.Place(2) + ": the function that is to change the object is nil")
	}
}

// onObjects adapts change to untyped objects.
func onObjects[T object.Object](change func(T) error) func(object.Object) error {
	return func(o object.Object) error { return change(o.(T)) }
}

// did converts o to type T.
func did[T object.Object](o object.Object, outcome Outcome, err error) (T, Outcome, error) {
	typed, _ := o.(T)
	return typed, outcome, err
}

func (c *client) createOrUpdate(ctx context.Context, o object.Object, change func(object.Object) error) (object.Object, Outcome, error) {
	if err := c.whole("create or update", o); err != nil {
		return o, Unchanged, err
	}
	given, key := o, c.complete(object.KeyOf(o))
	if key.Name == "" {
		return o, Unchanged, fmt.Errorf("create or update %s: the object has no name, so every call would create another one: set a name, or use Create", c)
	}
	there, err := c.readWhole(ctx, key)
	exists := err == nil
	switch {
	case exists:
		o = there
	case !apierrors.IsNotFound(err):
		return o, Unchanged, err
	}
	wanted, before := copyOf(o), copyOf(given)
	if err := change(wanted); err != nil {
		return o, Unchanged, err
	}
	if !equality.Semantic.DeepEqual(before, given) {
		return o, Unchanged, fmt.Errorf("create or update %s: %w", c, errWrongObject(given))
	}
	if wanted, err = c.adopt(wanted); err != nil {
		return o, Unchanged, err
	}
	switch {
	case c.complete(object.KeyOf(wanted)) != key:
		return o, Unchanged, fmt.Errorf("%s %s: change altered the key to %s", c.resource, object.FormatKey(key), object.FormatKey(object.KeyOf(wanted)))
	case !exists:
		created, err := c.create(ctx, wanted, metav1.CreateOptions{})
		return outcome(o, created, DidCreate, err)
	case equality.Semantic.DeepEqual(there, wanted):
		return there, Unchanged, nil
	}
	updated, err := c.update(ctx, wanted, metav1.UpdateOptions{})
	return outcome(o, updated, DidUpdate, err)
}

func outcome(before, after object.Object, did Outcome, err error) (object.Object, Outcome, error) {
	if err != nil {
		return before, Unchanged, err
	}
	return after, did, nil
}
