package controller

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
)

// OwnedBy returns the client for what owner controls. What it creates, updates, applies
// or makes by CreateOrUpdate gets owner as its controller, as by
// SetControllerReference with the scheme of the client: Owns finds it, and the garbage
// collector deletes it when owner is gone. Where that cannot be, the write fails, with an
// *AlreadyOwnedError where another object has it. It cannot be either where owner is nil.
// Patches, the status and deletions are as they were.
//
// owner is not changed. It may come from a cache.
func (c *Client[T]) OwnedBy(owner object.Object) *Client[T] {
	return clientOf(c.informer, c.resource, c.of.ownedBy(owner))
}

func (c *client) ownedBy(owner object.Object) *client {
	owned := *c
	owned.owner, owned.owned = owner, true
	return &owned
}

// disowned is the error of an apply of o. Where the server refuses a second controller, it says
// which is the first: o was made by the caller, and does not tell.
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

// adopt returns o with the client's owner, in a copy where that changes it.
func (c *client) adopt(o object.Object) (object.Object, error) {
	if !c.owned || absent(o) || !absent(c.owner) && Controls(c.owner, o) {
		return o, nil // to write nothing is refused elsewhere
	}
	adopted := copyOf(o)
	if err := SetControllerReference(c.owner, adopted, c.resource.Client().Scheme()); err != nil {
		return o, err
	}
	return adopted, nil
}
