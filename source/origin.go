package source

import (
	"context"

	"github.com/millrace-dev/millrace/object"
)

// Origin says whose objects a source reads, so that another process can tell whether it has
// read the same ones before.
type Origin struct {
	Kind   object.GVK
	Server string // what is known without asking: where the server is and how it is recognised

	// Cluster asks the server which one it is. It returns the same for as long as the
	// cluster lives, and empty where the caller may not know.
	Cluster func(context.Context) (string, error)
}

// Traced is a ListerWatcher that knows the origin of its objects. It reports false where it
// does not.
type Traced interface {
	Origin() (Origin, bool)
}

// OriginOf returns the origin of what a source reads, if it knows that.
func OriginOf(from any) (Origin, bool) {
	if traced, ok := from.(Traced); ok {
		return traced.Origin()
	}
	return Origin{}, false
}
