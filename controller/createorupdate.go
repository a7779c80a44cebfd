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

// Outcome is what CreateOrUpdate did.
type Outcome string

// The outcomes.
const (
	Unchanged Outcome = "unchanged"
	DidCreate Outcome = "created"
	DidUpdate Outcome = "updated"
)

// CreateOrUpdate makes an object what change makes of it. Where there is an
// object of o's key in what c reads, change is called with a copy of that, and the copy is written
// if it differs then; otherwise change is called with a copy of o, which is
// created. It returns the object as it is then; one that is unchanged is shared
// with the cache, and must not be changed.
//
// change gets the object as its argument: one that changes o itself, the variable outside of the function,
// is an error. It must not change name and namespace, and must leave alone what it does not
// mean to set, defaults of the server among it, or each reconcile writes. The
// status is not written, where the kind has a status subresource. To leave all
// that to the server, use Apply. A client of Client.OwnedBy adds the owner by itself.
//
// It is refused where Client.Update is, and for an object without a name.
//
// The cache may lag behind what others wrote. Then the server answers with a
// conflict or "already exists", which is to be returned: a later try sees more. After a conflict
// the request waits until the cache has another version.
func CreateOrUpdate[T object.Object](ctx context.Context, c *Client[T], o T, change func(T) error) (T, Outcome, error) {
	mustChange(change)
	return did[T](c.plain().createOrUpdate(ctx, o, onObjects(change)))
}

// mustChange panics if change is nil. The functions that users call call it themselves, since the
// panic names the line of their caller.
func mustChange[T object.Object](change func(T) error) {
	if change == nil {
		panic(failure.Place(2) + ": the function that is to change the object is nil")
	}
}

// onObjects returns a function that changes objects of any type.
func onObjects[T object.Object](change func(T) error) func(object.Object) error {
	return func(o object.Object) error { return change(o.(T)) }
}

// did returns what was done with an object as one of type T.
func did[T object.Object](o object.Object, outcome Outcome, err error) (T, Outcome, error) {
	typed, _ := o.(T)
	return typed, outcome, err
}

func (c *client) createOrUpdate(ctx context.Context, o object.Object, change func(object.Object) error) (object.Object, Outcome, error) {
	if err := c.whole("create or update", o); err != nil {
		return o, Unchanged, err
	}
	given, key := o, object.KeyOf(o)
	if key.Name == "" {
		return o, Unchanged, fmt.Errorf("create or update %s: the object has no name, so that no call finds what the one before it created: name it, or use Create", c)
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
	case object.KeyOf(wanted) != key:
		return o, Unchanged, fmt.Errorf("%s %s: change made %s of its key", c.resource, object.FormatKey(key), object.FormatKey(object.KeyOf(wanted)))
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
