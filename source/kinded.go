package source

import "github.com/millrace-dev/millrace/object"

// Kinded is a ListerWatcher that knows the kind of its objects, which they need not say
// themselves. Whoever must know Secrets asks for it.
type Kinded interface {
	// Kind returns the kind; empty where it is not known. It is asked once, when an informer
	// is made of the source.
	Kind() object.GVK
}

// KindOf returns the kind of what a source reads, empty where it does not know that. A Kind method
// that panics, as on a nil pointer, knows none and does no other harm.
func KindOf(from any) (kind object.GVK) {
	if kinded, ok := from.(Kinded); ok {
		defer func() { _ = recover() }()
		return kinded.Kind()
	}
	return kind
}
