package source

import (
	"cmp"
	"context"
	"fmt"
	"reflect"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

// Description describes a source and the objects it reads. The zero value means all objects of a kind,
// unmodified.
type Description struct {
	Name string     // used in messages; if empty, the Go type of the source
	Kind object.GVK // the objects' kind, even if the objects do not carry it; empty if unknown. Debug pages use it to recognize Secrets

	// Code that writes objects must consider the next three fields. Writing back a partial object erases its
	// missing fields, and a written object that the source does not cover never arrives.

	Namespace string      // the source's only namespace; metav1.NamespaceAll for all
	Kept      wire.Fields // the fields that the objects retain; the zero value means all
	Altered   bool        // a user's function has modified the objects
	Omits     bool        // a user's function omits some objects (see Filtered), so the server's count includes others

	// Pool contains the sub-objects shared between objects (W03); nil if there are none. Objects derived from
	// them share sub-objects through the pool too. If one is found to have been modified, in violation of
	// L16, the pool is cleared.
	Pool *wire.Pool

	// Origin, if not nil, returns the origin of the objects, and false if it is unknown. It may
	// read a file.
	Origin func() (Origin, bool)

	// The parts of a Request supported by the source:

	Narrows bool // Namespace
	Reuses  bool // Known
	Filters bool // Wanted
	Packs   bool // Packer
}

// Plain returns the description for a wrapper that inspects or modifies its source's objects. The wrapper
// supports only the namespace part of a Request, so it sees every object as the source yields it. It has no
// Origin, because another process could not distinguish the wrapper from the source.
func (d Description) Plain() Description {
	d.Reuses, d.Filters, d.Packs, d.Origin = false, false, false, nil
	return d
}

// Describe returns a source's description, with a non-empty name. If the source's Describe panics, for
// example on a nil pointer, the rest of the description is zero.
func Describe(from ListerWatcher) (d Description) {
	defer func() {
		if recover() != nil {
			d = Description{}
		}
		d.Name = cmp.Or(d.Name, fmt.Sprintf("%T", from))
	}()
	return from.Describe()
}

// Reaches reports whether the source covers a namespace.
func (d Description) Reaches(namespace string) bool {
	return d.Namespace == "" || namespace == "" || d.Namespace == namespace
}

// CanNarrow returns an error if the source cannot be limited to a namespace.
func (d Description) CanNarrow(namespace string) error {
	switch {
	case namespace == "":
		return nil
	case !d.Reaches(namespace):
		return fmt.Errorf("%s does not reach namespace %s: use a source for all namespaces", d.Name, namespace)
	case !d.Narrows:
		return fmt.Errorf("%s cannot be limited to a namespace: its Description does not set Narrows", d.Name)
	}
	return nil
}

// Origin lets a later process recognize objects read from the same source on the same server. Sources whose
// origins are equal, apart from Cluster, yield the same objects if they belong to the same cluster.
type Origin struct {
	Kind   object.GVK
	Type   reflect.Type // the objects' Go type, a pointer
	Server string       // known without a request: the server's address and how it authenticates
	Scope  string       // restrictions on the objects, such as a namespace; empty for all objects
	Keep   string       // the kept fields

	// Cluster asks the server to identify its cluster. The result does not change during the cluster's
	// lifetime. It is empty if the caller has no permission to read it.
	Cluster func(context.Context) (string, error)
}
