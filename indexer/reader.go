package indexer

import (
	"iter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace-dev/millrace/object"
)

// Reader provides read access to a cache (L16). All readers share its objects, which must not be modified;
// modify a DeepCopy. sharedinformer.Options.DetectMutations finds violations. A Reader is a small value, safe
// for concurrent use.
type Reader[T object.Head] struct {
	_  [0]*T // prevents conversion between readers of different types
	of reader
}

// reader is a Reader without its type parameter.
type reader struct {
	x     *Indexer
	opens bool // the entries are Openers, and the reader needs the objects
}

// ReaderOf returns a reader for x, whose objects must all be of type T.
func ReaderOf[T object.Head](x *Indexer) Reader[T] { return Reader[T]{of: reader{x: x}} }

// Opened returns a reader for x, whose entries must be Openers of objects of type T. It opens entries on
// demand. Entries that cannot be opened are skipped as if they were not cached; the entry itself reports the
// cause.
func Opened[T object.Object](x *Indexer) Reader[T] { return Reader[T]{of: reader{x: x, opens: true}} }

// as converts the result of a lookup to type T.
func as[T object.Head](o object.Head, _ bool) (T, bool) {
	typed, ok := o.(T)
	return typed, ok
}

// Get returns the object under key, which is shared and must not be modified.
func (r Reader[T]) Get(key object.Key) (T, bool) { return as[T](r.of.get(key)) }

func (r reader) get(key object.Key) (object.Head, bool) {
	o, ok := r.entry(key)
	if ok && r.opens {
		return opened(o)
	}
	return o, ok
}

func (r reader) entry(key object.Key) (object.Head, bool) {
	r.x.mu.RLock()
	defer r.x.mu.RUnlock()
	return r.x.get(key)
}

// Len returns the number of cached objects. Len, RV and NamespaceRV never block.
func (r Reader[T]) Len() int { return r.of.len() }

func (r reader) len() int { return r.x.shown.Load().objects }

// RV returns the cache's resource version: the cache contains every change up to it (L13). It is empty before
// the first list.
func (r Reader[T]) RV() string { return r.of.rv() }

func (r reader) rv() string { return r.x.shown.Load().rv }

// NamespaceRV returns the resource version of one namespace. That is RV, or a later version if each
// namespace is watched separately.
func (r Reader[T]) NamespaceRV(namespace string) string { return r.of.namespaceRV(namespace) }

func (r reader) namespaceRV(namespace string) string {
	if rv, ok := r.x.rvs.get(namespace).(string); ok {
		return rv
	}
	return r.rv()
}

// All yields every object, in no particular order, as of the start of the iteration. The objects must not be
// modified.
func (r Reader[T]) All() iter.Seq[T] {
	return r.Namespace(metav1.NamespaceAll)
}

// Namespace yields the objects in one namespace, in no particular order, as of the start of the iteration. As
// elsewhere in the API, an empty namespace (metav1.NamespaceAll) means all namespaces. The objects must not
// be modified.
func (r Reader[T]) Namespace(namespace string) iter.Seq[T] {
	return func(yield func(T) bool) { // see cursor
		for c := r.of.walk(namespace); c.more(); {
			for _, o := range c.next() {
				if !yield(o.(T)) {
					return
				}
			}
		}
	}
}

func (r reader) walk(namespace string) cursor { return r.namespace(namespace).walk(r.opens) }

func (r reader) namespace(namespace string) View {
	if namespace == metav1.NamespaceAll {
		return r.x.view(r.x.everything)
	}
	return r.x.view(func() *vector { return r.x.list(namespace) })
}

// Select yields the objects whose labels match. It checks every object; if that is too slow, use an
// index. The objects must not be modified.
func (r Reader[T]) Select(selector labels.Selector) iter.Seq[T] {
	return func(yield func(T) bool) {
		r.of.selected(selector, func(o object.Head) bool { return yield(o.(T)) })
	}
}

// selected opens only objects whose labels match.
func (r reader) selected(selector labels.Selector, yield func(object.Head) bool) {
	everything := selector == nil || selector.Empty()
	for o := range r.namespace(metav1.NamespaceAll).All() {
		ok := everything || selector.Matches(object.Labels(o))
		if ok && r.opens {
			o, ok = opened(o)
		}
		if ok && !yield(o) {
			return
		}
	}
}

// Snapshot returns all objects, and the resource version, as of the same moment.
func (r Reader[T]) Snapshot() (objects iter.Seq[T], rv string) {
	view, rv := r.of.x.Snapshot()
	return func(yield func(T) bool) {
		for c := view.walk(r.of.opens); c.more(); {
			for _, o := range c.next() {
				if !yield(o.(T)) {
					return
				}
			}
		}
	}, rv
}

// Snapshot returns all objects, and the resource version, as of the same moment. It takes constant time.
func (x *Indexer) Snapshot() (objects View, rv string) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.all.view(), x.figures.rv
}

// NamespaceSnapshot returns every object in a namespace, or all objects if namespace is empty
// (metav1.NamespaceAll).
func (x *Indexer) NamespaceSnapshot(namespace string) View {
	return reader{x: x}.namespace(namespace)
}

// Matching yields the objects in seq whose labels match selector. It can be used to filter the result of any
// lookup.
func Matching[T object.Head](seq iter.Seq[T], selector labels.Selector) iter.Seq[T] {
	if selector == nil || selector.Empty() {
		return seq
	}
	return func(yield func(T) bool) {
		for o := range seq {
			if selector.Matches(object.Labels(o)) && !yield(o) {
				return
			}
		}
	}
}

// Opener is an entry that represents an object by its head and returns the object itself on demand, such as a
// wire.Packed. Open may fail. It must be safe for concurrent use, and may be called with the cache's locks
// held.
type Opener interface {
	object.Head
	Open() (object.Object, error)
}

// opened opens an entry, which must be an Opener.
func opened(o object.Head) (object.Head, bool) {
	opened, err := o.(Opener).Open()
	return opened, err == nil
}

// unopened is the reason an object could not be opened for an index.
type unopened struct{ error }
