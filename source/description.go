package source

import (
	"cmp"
	"context"
	"fmt"
	"reflect"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

// Description describes a source and the objects that it reads. The zero value says: all objects of some
// kind, as the server has them.
type Description struct {
	Name string     // for messages; if empty, the Go type of the source
	Kind object.GVK // of the objects, which need not say so themselves; empty if not known. Debug pages know Secrets by it

	// A writer needs to know the next three: a part that is written back erases the rest, and an object
	// that the source does not have never arrives.

	Namespace string      // the only one whose objects it has; metav1.NamespaceAll for all
	Kept      wire.Fields // those that the objects have; the zero value for all
	Altered   bool        // a function of the user's has changed the objects

	// Pool has the parts that the objects share (W03); nil if they share none. Objects that are made of
	// them later share parts by way of it too. If a part turns out to have been changed, against L16, the
	// pool is told to forget all.
	Pool *wire.Pool

	// Origin, if not nil, tells the origin of the objects, if it is known. It may read a file.
	Origin func() (Origin, bool)

	// The parts of a Request that the source does itself.

	Narrows bool // Namespace
	Reuses  bool // Known
	Filters bool // Wanted
	Packs   bool // Packer
}

// Plain returns the description of a wrapper that looks at the objects of its source or changes them. It
// does nothing of a Request but the namespace, so that it sees each object, as the source makes it, and has
// no Origin, since in another process nobody can tell it from the source.
func (d Description) Plain() Description {
	d.Reuses, d.Filters, d.Packs, d.Origin = false, false, false, nil
	return d
}

// Describe returns what a source says of itself, under a name that is not empty. One that panics, as a
// nil pointer may, says nothing.
func Describe(from ListerWatcher) (d Description) {
	defer func() {
		if recover() != nil {
			d = Description{}
		}
		d.Name = cmp.Or(d.Name, fmt.Sprintf("%T", from))
	}()
	return from.Describe()
}

// Reaches reports whether the source has the objects of a namespace.
func (d Description) Reaches(namespace string) bool {
	return d.Namespace == "" || namespace == "" || d.Namespace == namespace
}

// CanNarrow says why the source cannot be asked for the objects of one namespace; nil if it can.
func (d Description) CanNarrow(namespace string) error {
	switch {
	case namespace == "":
		return nil
	case !d.Reaches(namespace):
		return fmt.Errorf("%s does not reach namespace %s: make the informer of a source of all namespaces", d.Name, namespace)
	case !d.Narrows:
		return fmt.Errorf("%s cannot be narrowed to a namespace: its Description does not say that it Narrows", d.Name)
	}
	return nil
}

// Origin tells another process whether it has read the same objects of the same server before. Two
// sources whose origins agree in all but the function yield the same objects, if they are of the same
// cluster.
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
