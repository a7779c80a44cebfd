package source

import "github.com/millrace-dev/millrace/object"

// Kinded is a ListerWatcher that knows the kind of its objects, which they need not say
// themselves. Whoever must know Secrets asks for it.
type Kinded interface {
	// Kind returns the kind; empty where it is not known.
	Kind() object.GVK
}

// KindOf returns the kind of what a source reads, empty where it does not know that.
func KindOf(from any) object.GVK {
	if kinded, ok := from.(Kinded); ok {
		return kinded.Kind()
	}
	return object.GVK{}
}
