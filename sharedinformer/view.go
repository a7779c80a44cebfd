package sharedinformer

import (
	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/object"
)

// View is an informer for those who need not know the type of its objects, such as what
// shows all informers of a process. Its methods may be called at any time, from any
// goroutine. What they return must not be changed.
type View interface {
	// Name is what messages call the resource.
	Name() string

	// Status is how it is doing.
	Status() Status

	// Heads is its cache; indexes are seen there too.
	Heads() indexer.Reader[object.Head]

	// Object returns the object of a head that Heads has given. It fails as Informer.Open
	// does.
	Object(head object.Head) (object.Object, error)
}

// View returns the informer as one whose objects are of any type.
func (i *Informer[T]) View() View { return i.core.view() }

func (i *core) view() View { return view{i} }

type view struct{ *core }

func (v view) Heads() indexer.Reader[object.Head] { return v.cache.Reader() }

func (v view) Object(head object.Head) (object.Object, error) { return v.open(head) }
