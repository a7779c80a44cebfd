package controller

import (
	"fmt"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/millrace-dev/millrace/object"
)

// AlreadyOwnedError means that an object already has a different controller.
type AlreadyOwnedError struct {
	Object object.Object
	Owner  metav1.OwnerReference // its controller
}

// Error returns a message with the object and its controller.
func (e *AlreadyOwnedError) Error() string {
	return fmt.Sprintf("%s is controlled by %s %s (UID %s) already", object.FormatKey(object.KeyOf(e.Object)), e.Owner.Kind, e.Owner.Name, e.Owner.UID)
}

// SetControllerReference makes owner the controller of o, in memory, so that [Owns] finds owner and the
// garbage collector deletes o after owner. With this reference, a foreground deletion of owner waits for o
// to be deleted. An existing reference with owner's UID is updated. The owner's kind is taken from owner
// itself, or from the scheme if owner does not specify one.
//
// It fails with an *AlreadyOwnedError if another object controls o, such as an earlier object with owner's
// name; in that case the garbage collector will delete o along with that object. It also fails if the
// reference could not work: if owner is nil, has no UID because it has not been created yet, or is in
// another namespace. See
// https://kubernetes.io/docs/concepts/overview/working-with-objects/owners-dependents/
func SetControllerReference(owner, o object.Object, scheme *runtime.Scheme) error {
	return setOwner(owner, o, scheme, true)
}

// SetOwnerReference adds owner as one of several owners: [OwnsAny] finds it, and the garbage collector
// deletes o once all of its owners are deleted. It does not matter whether o has a controller, and the
// reference does not block the owner's deletion. Otherwise it is like [SetControllerReference].
func SetOwnerReference(owner, o object.Object, scheme *runtime.Scheme) error {
	return setOwner(owner, o, scheme, false)
}

func setOwner(owner, o object.Object, scheme *runtime.Scheme, controls bool) error {
	if absent(owner) {
		return fmt.Errorf("owner reference of %s: the owner is nil: use the object that the server returned", object.FormatKey(object.KeyOf(o)))
	}
	describe := func(problem string, args ...any) error {
		return fmt.Errorf("owner reference of %s to %s: %s", object.FormatKey(object.KeyOf(o)), object.FormatKey(object.KeyOf(owner)), fmt.Sprintf(problem, args...))
	}
	kind, err := kindOf(owner, scheme)
	switch {
	case err != nil:
		return describe("%s", err)
	case owner.GetUID() == "":
		return describe("the owner has no UID: use the object that the server returned")
	case owner.GetNamespace() != "" && o.GetNamespace() == "":
		return describe("a cluster-scoped object cannot be owned by one in a namespace")
	case owner.GetNamespace() != "" && owner.GetNamespace() != o.GetNamespace():
		return describe("they are in different namespaces")
	}
	reference := metav1.OwnerReference{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: owner.GetName(), UID: owner.GetUID()}
	if controls {
		reference.Controller, reference.BlockOwnerDeletion = new(true), new(true)
	}
	references := slices.Clone(o.GetOwnerReferences())
	if other := metav1.GetControllerOfNoCopy(o); controls && other != nil && other.UID != reference.UID {
		return &AlreadyOwnedError{Object: o, Owner: *other}
	}
	at := slices.IndexFunc(references, func(r metav1.OwnerReference) bool { return r.UID == reference.UID })
	switch {
	case at < 0:
		references = append(references, reference)
	case controls:
		references[at] = reference
	default: // leave Controller unchanged
		reference.Controller, reference.BlockOwnerDeletion = references[at].Controller, references[at].BlockOwnerDeletion
		references[at] = reference
	}
	o.SetOwnerReferences(references)
	return nil
}

// RemoveOwnerReference removes the reference with owner's UID from o, in memory, and reports whether
// there was one.
func RemoveOwnerReference(owner, o object.Object) bool {
	before := o.GetOwnerReferences()
	after := slices.DeleteFunc(slices.Clone(before), func(r metav1.OwnerReference) bool { return r.UID == owner.GetUID() })
	if len(after) == len(before) {
		return false
	}
	o.SetOwnerReferences(after)
	return true
}

// Controls reports whether owner is the controller of o.
func Controls(owner, o object.Object) bool { return metav1.IsControlledBy(o, owner) }

// kindOf returns the object's kind, taken from the object itself or, if it has none, from the scheme.
func kindOf(o object.Object, scheme *runtime.Scheme) (object.GVK, error) {
	if kind := o.GetObjectKind().GroupVersionKind(); kind.Kind != "" && kind.Version != "" {
		return kind, nil
	}
	if scheme == nil {
		return object.GVK{}, fmt.Errorf("the scheme is nil, and the %T does not specify its kind: pass the client's scheme", o)
	}
	kinds, _, err := scheme.ObjectKinds(o)
	if err != nil {
		return object.GVK{}, err
	}
	if len(kinds) != 1 {
		return object.GVK{}, fmt.Errorf("%T is registered as several kinds: %v", o, kinds)
	}
	return kinds[0], nil
}

// absent reports whether o is nil or holds a nil pointer.
func absent(o any) bool {
	v := reflect.ValueOf(o)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// HasFinalizer reports whether o has the finalizer.
func HasFinalizer(o object.Object, finalizer string) bool {
	return slices.Contains(o.GetFinalizers(), finalizer)
}

// AddFinalizer adds a finalizer to o, in memory, and reports whether o lacked it. The server does not allow
// adding finalizers to an object that is being deleted.
func AddFinalizer(o object.Object, finalizer string) (added bool) {
	if HasFinalizer(o, finalizer) {
		return false
	}
	o.SetFinalizers(append(slices.Clone(o.GetFinalizers()), finalizer))
	return true
}

// RemoveFinalizer removes a finalizer from o, in memory, and reports whether o had it.
func RemoveFinalizer(o object.Object, finalizer string) (removed bool) {
	if !HasFinalizer(o, finalizer) {
		return false
	}
	o.SetFinalizers(slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(f string) bool { return f == finalizer }))
	return true
}
