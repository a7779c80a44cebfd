package indexer

import (
	"iter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace-dev/millrace/object"
)

// Reader is the read side of a cache (L16). All readers share its objects, which must
// not be changed: copy them first with DeepCopy. A Reader is a small value, safe for
// concurrent use.
type Reader[T object.Head] struct {
	x      *Indexer[T]
	closed closed[T] // what is to be opened, where x is nil
}

// Get returns the object under key.
func (r Reader[T]) Get(key object.Key) (T, bool) {
	if r.x == nil {
		return r.closed.Get(key)
	}
	r.x.mu.RLock()
	defer r.x.mu.RUnlock()
	return r.x.get(key)
}

// Len is how many objects are cached. It never waits, and nor do RV and NamespaceRV.
func (r Reader[T]) Len() int {
	if r.x == nil {
		return r.closed.Len()
	}
	return r.x.shown.Load().objects
}

// RV is the resource version up to which the cache is complete (L13); empty
// before the first list.
func (r Reader[T]) RV() string {
	if r.x == nil {
		return r.closed.RV()
	}
	return r.x.shown.Load().rv
}

// NamespaceRV is the resource version up to which the cache is complete for the
// objects of one namespace: RV, or a later one if each namespace has a watch of its
// own.
func (r Reader[T]) NamespaceRV(namespace string) string {
	if r.x == nil {
		return r.closed.NamespaceRV(namespace)
	}
	shown := r.x.shown.Load()
	if rv, ok := shown.rvs[namespace]; ok {
		return rv
	}
	return shown.rv
}

// All yields every object, in no particular order, as of the moment at which
// the iteration begins.
func (r Reader[T]) All() iter.Seq[T] {
	return r.Namespace(metav1.NamespaceAll)
}

// Namespace yields the objects of one namespace, in no particular order, as of
// the moment at which the iteration begins. As everywhere in the API, the empty
// namespace (metav1.NamespaceAll) means all.
func (r Reader[T]) Namespace(namespace string) iter.Seq[T] {
	return func(yield func(T) bool) {
		for c := r.walk(namespace); c.more(); {
			for _, o := range c.next() {
				if !yield(o) {
					return
				}
			}
		}
	}
}

func (r Reader[T]) walk(namespace string) cursor[T] {
	if r.x == nil {
		return walkClosed(r.closed.namespace(namespace))
	}
	return r.namespace(namespace).walk()
}

func (r Reader[T]) namespace(namespace string) View[T] {
	if namespace == metav1.NamespaceAll {
		return r.x.view(r.x.everything)
	}
	return r.x.view(func() *vector[T] { return r.x.list(namespace) })
}

// Select yields the objects whose labels match. It looks at every object; if that is
// too many, use an index.
func (r Reader[T]) Select(selector labels.Selector) iter.Seq[T] {
	return func(yield func(T) bool) { r.selected(selector, yield) }
}

func (r Reader[T]) selected(selector labels.Selector, yield func(T) bool) {
	if r.x == nil {
		each(r.closed.namespace(metav1.NamespaceAll), selector, yield)
		return
	}
	everything := selector == nil || selector.Empty()
	for o := range r.x.view(r.x.everything).All() {
		if (everything || selector.Matches(labels.Set(o.GetLabels()))) && !yield(o) {
			return
		}
	}
}

// Snapshot returns every object and the resource version of exactly that set.
func (r Reader[T]) Snapshot() (objects iter.Seq[T], rv string) {
	if r.x == nil {
		view, rv := r.closed.snapshot()
		return func(yield func(T) bool) { each(view, nil, yield) }, rv
	}
	view, rv := r.x.Snapshot()
	return view.All(), rv
}

// Snapshot returns every object and the resource version of exactly that set.
// It takes no longer for many objects than for few.
func (x *Indexer[T]) Snapshot() (objects View[T], rv string) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.all.view(), x.figures.rv
}

// NamespaceSnapshot returns every object of a namespace, or of all if it is empty
// (metav1.NamespaceAll).
func (x *Indexer[T]) NamespaceSnapshot(namespace string) View[T] {
	return x.Reader().namespace(namespace)
}

// Matching yields the objects of seq whose labels match selector. With it any
// lookup can be narrowed: by namespace, by index, by both.
func Matching[T object.Head](seq iter.Seq[T], selector labels.Selector) iter.Seq[T] {
	if selector == nil || selector.Empty() {
		return seq
	}
	return func(yield func(T) bool) {
		for o := range seq {
			if selector.Matches(labels.Set(o.GetLabels())) && !yield(o) {
				return
			}
		}
	}
}
