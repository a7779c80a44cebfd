package source

import (
	"context"
	"fmt"
	"iter"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

// List is a list as it is being read. It belongs to one goroutine.
type List[T object.Head] struct {
	// Items yields each item as it arrives, following the pages. It can be
	// ranged over once; the request is sent when it is. An error ends it, and
	// what was yielded before is then not the whole list.
	Items iter.Seq2[T, error]

	// Meta is the metadata of the list, complete when Items has ended without
	// an error. Its Continue is empty then and its RemainingItemCount nil; before, from
	// the end of the first page on, they are those of that page. Its ResourceVersion is
	// that of the first page: a watch from there misses nothing.
	Meta *metav1.ListMeta
}

// ListerWatcher is what a reflector needs of a resource: to list it and to
// watch it. rest.Resource implements it; so can a test, in a few lines. A source
// that implements fmt.Stringer is named so in messages.
type ListerWatcher interface {
	// List returns a list that is yet to be read.
	List(ctx context.Context, opts metav1.ListOptions) List[object.Head]

	// Watch opens a watch and returns when the server has accepted it. The
	// connection is held until the iteration ends or ctx is done; the
	// iteration must be begun or ctx cancelled.
	Watch(ctx context.Context, opts metav1.ListOptions) (iter.Seq2[wire.Event[object.Head], error], error)
}

// NameOf is what messages call a source. A String method that panics, as on a nil pointer,
// names it badly and does no other harm.
func NameOf(from any) string {
	if named, ok := from.(fmt.Stringer); ok {
		if name := fmt.Sprint(named); name != "<nil>" {
			return name
		}
	}
	return fmt.Sprintf("%T", from)
}

// IsNil reports whether o is nil, or holds a nil pointer. A source must yield no such object.
func IsNil(o object.Head) bool {
	v := reflect.ValueOf(o)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

// Sharer is a ListerWatcher whose objects may share equal parts (W03).
type Sharer interface {
	// SharedParts returns the pool of the parts, nil where nothing is shared. What is made of
	// the objects later shares parts by way of it too. Where a part was found to be changed,
	// against L16, it is told to forget all.
	SharedParts() *wire.Pool
}

// Reuser is a ListerWatcher that need not decode again what its caller has.
type Reuser interface {
	ListerWatcher

	// Reusing returns the same source for a caller that has objects already:
	// the items of its lists and the initial events of its watches are the
	// known objects themselves where UID and resource version are the same. It may
	// be called on a source that was returned by it, and then counts alone.
	Reusing(known wire.Known) ListerWatcher
}

// Packer is a ListerWatcher that can pack its objects itself, without making them first.
type Packer interface {
	ListerWatcher

	// Packing returns the source of the same objects, packed by p. It should be a
	// Reuser if the source is one.
	Packing(p *wire.Packer) Namespacer
}

// Namespacer is a ListerWatcher that can be narrowed to a namespace.
type Namespacer interface {
	ListerWatcher

	// In returns the source of the objects of one namespace; the empty one means
	// all (metav1.NamespaceAll). It fails where that cannot be done. What it
	// returns fails with ErrNotNamespaced where the kind has no namespaces.
	In(namespace string) (ListerWatcher, error)
}
