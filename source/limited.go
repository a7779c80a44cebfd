package source

import "github.com/millrace-dev/millrace/wire"

// Limited is a ListerWatcher that says what its objects are: some of those that the
// server has, or parts of them. A writer needs to know: a part that is written
// back erases the rest, and an object that is not among them never arrives.
type Limited interface {
	// Kept returns the fields that the objects have; the zero value means all.
	Kept() wire.Fields

	// Altered reports whether a function of the user's has changed the objects.
	Altered() bool

	// Reaches reports whether the objects of a namespace are among them.
	Reaches(namespace string) bool
}
