package indexer

import (
	"iter"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace-dev/millrace/object"
)

// Opener is what a cache holds in the place of an object: its head, and a way to the
// object itself, such as a wire.Packed. Open may fail. It may be called from any
// goroutine, and under the locks of the cache.
type Opener[T object.Head] interface {
	object.Head
	Open() (T, error)
}

// Opened returns a reader of what is in x, which opens one object at a time as it is asked
// for. What cannot be opened is passed over, as if it were not cached: why is for the entry to
// tell.
func Opened[T object.Head, P Opener[T]](x *Indexer[P]) Reader[T] {
	return Reader[T]{closed: opener[T, P]{x.Reader(), open[T, P]}}
}

// open opens an entry.
func open[T object.Head, P Opener[T]](p P) (T, bool) {
	opened, err := p.Open()
	return opened, err == nil
}

// Heads returns a reader of what is in x that opens nothing.
func Heads[P object.Head](x *Indexer[P]) Reader[object.Head] {
	return Reader[object.Head]{closed: opener[object.Head, P]{x.Reader(), beheaded[P]}}
}

// beheaded returns an entry as it is.
func beheaded[P object.Head](p P) (object.Head, bool) { return p, true }

// closed is the read side of a cache of what has to be opened. None of its methods takes a
// caller's yield, which would have to be on the heap then.
type closed[T object.Head] interface {
	Get(key object.Key) (T, bool)
	Len() int
	RV() string
	NamespaceRV(namespace string) string
	Indexes(largest int) []IndexStatus
	namespace(namespace string) closedView[T]
	snapshot() (objects closedView[T], rv string)
}

// closedView is a list of what has to be opened, which never changes.
type closedView[T object.Head] interface {
	Len() int

	// open opens what stands at a position, if its labels match. A nil selector matches
	// all. It reports false for what does not match and what cannot be opened.
	open(i int, selector labels.Selector) (T, bool)
}

// each yields what can be opened and matches.
func each[T object.Head](v closedView[T], selector labels.Selector, yield func(T) bool) {
	for i := range v.Len() {
		if o, ok := v.open(i, selector); ok && !yield(o) {
			return
		}
	}
}

// opener opens what a reader finds.
type opener[T, P object.Head] struct {
	Reader[P]
	open func(P) (T, bool)
}

// openerView opens what stands in a view.
type openerView[T, P object.Head] struct {
	View[P]
	by opener[T, P]
}

func (v openerView[T, P]) open(i int, selector labels.Selector) (opened T, ok bool) {
	p := v.At(i)
	if selector != nil && !selector.Matches(labels.Set(p.GetLabels())) {
		return opened, false
	}
	return v.by.open(p)
}

func (o opener[T, P]) Get(key object.Key) (opened T, ok bool) {
	p, ok := o.Reader.Get(key)
	if !ok {
		return opened, false
	}
	return o.open(p)
}

func (o opener[T, P]) namespace(namespace string) closedView[T] {
	return openerView[T, P]{o.Reader.namespace(namespace), o}
}

func (o opener[T, P]) snapshot() (objects closedView[T], rv string) {
	view, rv := o.x.Snapshot()
	return openerView[T, P]{view, o}, rv
}

// AddIndexOpened is AddIndex for a function of the objects that x's entries open to. The
// values of an object are remembered, so that it need not be opened when it changes or
// goes. An object that cannot be opened is in no bucket.
func AddIndexOpened[T object.Head, P Opener[T], V comparable](x *Indexer[P], name string, values func(T) []V) (*Index[T, V], []*IndexError) {
	o := opener[T, P]{open: open[T, P]}
	of, failures := newIndex(x, name, func(p P) []V {
		opened, err := p.Open()
		if err != nil {
			panic(unopened{err}) // which is reported when no lock is held
		}
		return values(opened)
	}, make(map[*entry[P]][]V))
	return &Index[T, V]{name: name, closed: closedIndex[T, P, V]{of, o}}, failures
}

// unopened is why an object could not be opened for an index.
type unopened struct{ error }

// anyClosed is an index of what has to be opened. Its methods are Index's.
type anyClosed[T object.Head, V comparable] interface {
	Remove()
	Len(v V) int
	Values() []V
	HeadsOfAny(values []V) iter.Seq[object.Head]
	with(v V) closedView[T]
	heads(v V) closedView[object.Head]
}

type closedIndex[T, P object.Head, V comparable] struct {
	*Index[P, V]
	by opener[T, P]
}

func (i closedIndex[T, P, V]) with(v V) closedView[T] {
	return openerView[T, P]{i.view(v), i.by}
}

func (i closedIndex[T, P, V]) heads(v V) closedView[object.Head] {
	return openerView[object.Head, P]{i.view(v), opener[object.Head, P]{open: beheaded[P]}}
}
