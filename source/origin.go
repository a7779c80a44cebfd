package source

import (
	"context"
	"reflect"

	"github.com/millrace-dev/millrace/object"
)

// Origin says what a source reads, and of whom, so that another process can tell whether it
// has read the same before. Two sources whose origins agree in all but the function yield the
// same objects, if they are of the same cluster.
type Origin struct {
	Kind   object.GVK
	Type   reflect.Type // of the objects, a pointer
	Server string       // what is known without asking: where the server is and how it is recognised
	Scope  string       // which of the objects it yields, such as a namespace; empty for all
	Keep   string       // which of their fields

	// Cluster asks the server which one it is. It returns the same for as long as the
	// cluster lives, and empty where the caller may not know.
	Cluster func(context.Context) (string, error)
}

// Traced is a ListerWatcher that knows its origin. It reports false where it does not.
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
