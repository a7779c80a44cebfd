package controller

import (
	"slices"

	"github.com/millrace-dev/millrace/object"
)

// HasFinalizer reports whether o cannot be deleted before something removes the
// finalizer from it.
func HasFinalizer(o object.Object, finalizer string) bool {
	return slices.Contains(o.GetFinalizers(), finalizer)
}

// AddFinalizer adds a finalizer to o, in memory, and reports whether it was not
// there. The server refuses to add one to an object that is being deleted.
func AddFinalizer(o object.Object, finalizer string) (added bool) {
	if HasFinalizer(o, finalizer) {
		return false
	}
	o.SetFinalizers(append(slices.Clone(o.GetFinalizers()), finalizer))
	return true
}

// RemoveFinalizer removes a finalizer from o, in memory, and reports whether it
// was there.
func RemoveFinalizer(o object.Object, finalizer string) (removed bool) {
	if !HasFinalizer(o, finalizer) {
		return false
	}
	o.SetFinalizers(slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(f string) bool { return f == finalizer }))
	return true
}
