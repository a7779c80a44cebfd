package indexer

import (
	"fmt"
	"iter"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/millrace-dev/millrace/object"
)

// IndexError tells of an index function that panicked. The object is in the
// cache under its key but not in that index.
type IndexError struct {
	Index string // the name given to AddIndex
	Key   object.Key
	Panic any
	Stack []byte // nil behind the first few of one Write
}

// keptStacks is of how many failures of one Write the stack is kept: a function
// that panics on one object often does so on all, and a stack is a few KiB.
const keptStacks = 10

func (e *IndexError) Error() string {
	if err, ok := e.Panic.(unopened); ok {
		return fmt.Sprintf("index %q: %s cannot be opened: %v; the object is not found by this index until a version of it is indexed", e.Index, object.FormatKey(e.Key), err.error)
	}
	return fmt.Sprintf("index %q: function panicked on %s: %v; the object is not found by this index until a version of it is indexed without a panic",
		e.Index, object.FormatKey(e.Key), e.Panic)
}

// Index finds objects by the values that a function draws from them. It is
// made by AddIndex and is its own handle: two indexes may have the same name.
type Index[T object.Head, V comparable] struct {
	name      string
	x         *Indexer[T]
	values    func(T) []V
	looseType bool                   // a value of V may turn out not to be comparable, or not to equal itself
	buckets   table[V, bucket[T, V]] // what they hold is guarded by x.mu
	of        map[*entry[T]][]V      // the values of each, where they are remembered; guarded by x.mu
	closed    anyClosed[T, V]        // what is to be opened, where x is nil
}

// anyIndex is what the writer needs of an index of whatever value type. All
// methods are called under the write lock.
type anyIndex[T object.Head] interface {
	called() *string // the name, where it is kept
	insert(e *entry[T])
	update(e *entry[T], old T) // e holds the new object
	remove(e *entry[T])

	// status is called under no lock.
	status(largest int) IndexStatus
}

// AddIndex adds an index to x, which may be in use. The objects that x holds are
// indexed before AddIndex returns, but for those on which the function panicked. The
// function must depend on nothing but the object and must not change it. The name is
// for messages only.
func AddIndex[T object.Head, V comparable](x *Indexer[T], name string, values func(T) []V) (*Index[T, V], []*IndexError) {
	return newIndex(x, name, values, nil)
}

// newIndex is AddIndex. Where of is not nil, the values of each object are remembered in it.
func newIndex[T object.Head, V comparable](x *Indexer[T], name string, values func(T) []V, of map[*entry[T]][]V) (*Index[T, V], []*IndexError) {
	i := &Index[T, V]{name: name, x: x, values: values, of: of}
	switch reflect.TypeFor[V]().Kind() {
	case reflect.Interface, reflect.Struct, reflect.Array, reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		i.looseType = true
	}
	failures := x.Write(func(Writer[T]) {
		for _, e := range x.objects {
			x.calling.note(i.called(), e)
			i.insert(e)
		}
		x.indexes = append(x.indexes, i)
	})
	return i, failures
}

// Remove takes the index away: writes cost nothing for it any more, and every
// lookup finds nothing from then on. To remove it again does nothing. It must not be
// called by an index function.
func (i *Index[T, V]) Remove() {
	if i.x == nil {
		i.closed.Remove()
		return
	}
	i.x.Write(func(Writer[T]) {
		i.x.indexes = slices.DeleteFunc(i.x.indexes, func(other anyIndex[T]) bool { return other == anyIndex[T](i) })
		i.buckets.clear()
		clear(i.of)
	})
}

// Name returns the name given to AddIndex.
func (i *Index[T, V]) Name() string { return i.name }

// called is where the name is.
func (i *Index[T, V]) called() *string { return &i.name }

// Get yields the objects that have the value v, in no particular order, as of
// the moment at which the iteration begins. Nothing is copied; the objects
// must not be changed.
func (i *Index[T, V]) Get(v V) iter.Seq[T] {
	return func(yield func(T) bool) {
		for c := i.walk(v); c.more(); {
			for _, o := range c.next() {
				if !yield(o) {
					return
				}
			}
		}
	}
}

func (i *Index[T, V]) walk(v V) cursor[T] {
	if i.x == nil {
		return walkClosed(i.closed.with(v))
	}
	return i.view(v).walk()
}

// Heads is Get for callers that need no more of an object than its head: it opens nothing.
func (i *Index[T, V]) Heads(v V) iter.Seq[object.Head] {
	return func(yield func(object.Head) bool) {
		if i.x == nil {
			each(i.closed.heads(v), nil, yield)
			return
		}
		for o := range i.view(v).All() {
			if !yield(o) {
				return
			}
		}
	}
}

// HeadsOfAny yields the objects that have any of the values, each once, as of the moment at
// which the iteration begins. It opens nothing.
func (i *Index[T, V]) HeadsOfAny(values []V) iter.Seq[object.Head] {
	if i.x == nil {
		return i.closed.HeadsOfAny(values)
	}
	return func(yield func(object.Head) bool) {
		seen := make(map[object.Key]struct{})
		for _, view := range i.views(values) {
			for o := range view.All() {
				key := object.KeyOf(o)
				if _, twice := seen[key]; twice {
					continue
				}
				seen[key] = struct{}{}
				if !yield(o) {
					return
				}
			}
		}
	}
}

// views returns the objects of each value, all as of one moment.
func (i *Index[T, V]) views(values []V) []View[T] {
	i.x.mu.RLock()
	defer i.x.mu.RUnlock()
	var views []View[T]
	for _, v := range values {
		if b := i.buckets.get(v); b != nil {
			views = append(views, b.view())
		}
	}
	return views
}

// Len is how many objects have the value v.
func (i *Index[T, V]) Len(v V) int {
	if i.x == nil {
		return i.closed.Len(v)
	}
	i.x.mu.RLock()
	defer i.x.mu.RUnlock()
	if b := i.buckets.get(v); b != nil {
		return b.len()
	}
	return 0
}

// Values returns the values that at least one object has, in no particular
// order.
func (i *Index[T, V]) Values() []V {
	if i.x == nil {
		return i.closed.Values()
	}
	i.x.mu.RLock()
	defer i.x.mu.RUnlock()
	return slices.AppendSeq(make([]V, 0), i.buckets.values())
}

func (i *Index[T, V]) view(v V) View[T] {
	return i.x.view(func() *vector[T] {
		if b := i.buckets.get(v); b != nil {
			return &b.vector
		}
		return nil
	})
}

// bucket is the list of the objects that share one value.
type bucket[T object.Head, V comparable] struct {
	vector[T]
	value V // in memory of its own
	at    map[*entry[T]]uint32
}

func (i *Index[T, V]) insert(e *entry[T]) {
	values := i.valuesOf(e, e.object, true)
	for _, v := range values {
		i.put(v, e)
	}
	i.remember(e, values)
}

func (i *Index[T, V]) update(e *entry[T], old T) {
	before := i.before(e, old)
	after := i.valuesOf(e, e.object, true)
	for _, v := range before {
		if !slices.Contains(after, v) {
			i.take(v, e)
		}
	}
	for _, v := range after {
		i.put(v, e)
	}
	i.remember(e, after)
}

func (i *Index[T, V]) remove(e *entry[T]) {
	for _, v := range i.before(e, e.object) {
		i.take(v, e)
	}
	delete(i.of, e)
}

// before returns the values of what the index has of e, which is o.
func (i *Index[T, V]) before(e *entry[T], o T) []V {
	if i.of != nil {
		return i.of[e]
	}
	return i.valuesOf(e, o, false)
}

// remember keeps the values of e, if that is wanted, as its buckets have them.
func (i *Index[T, V]) remember(e *entry[T], values []V) {
	if i.of == nil {
		return
	}
	if len(values) == 0 {
		delete(i.of, e)
		return
	}
	own := make([]V, len(values))
	for n, v := range values {
		own[n] = i.buckets.get(v).value
	}
	i.of[e] = own
}

// put makes sure that the bucket of v has the object of e.
func (i *Index[T, V]) put(v V, e *entry[T]) {
	b := i.buckets.get(v)
	if b == nil {
		b = &bucket[T, V]{value: apart(v), at: make(map[*entry[T]]uint32)}
		i.buckets.put(b.value, b)
	}
	if at, ok := b.at[e]; ok {
		b.set(at)
	} else {
		b.at[e] = b.push(e)
	}
}

// apart returns v without the memory of the object that it comes from, as far as
// that can be told: a string may be a part of all the text of an object.
func apart[V comparable](v V) V {
	if s, ok := any(v).(string); ok {
		return any(strings.Clone(s)).(V)
	}
	cloneStrings(reflect.ValueOf(&v).Elem())
	return v
}

// cloneStrings clones the strings that v is made of, but for those in fields that are
// not exported and behind pointers and interfaces.
func cloneStrings(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() {
			v.SetString(strings.Clone(v.String()))
		}
	case reflect.Struct:
		for n := range v.NumField() {
			cloneStrings(v.Field(n))
		}
	case reflect.Array:
		for n := range v.Len() {
			cloneStrings(v.Index(n))
		}
	}
}

// take makes sure that the bucket of v does not have e.
func (i *Index[T, V]) take(v V, e *entry[T]) {
	b := i.buckets.get(v)
	if b == nil {
		return
	}
	at, ok := b.at[e]
	if !ok {
		return
	}
	delete(b.at, e)
	if moved := b.remove(at); moved != nil {
		b.at[moved] = at
	}
	if b.len() == 0 {
		i.buckets.delete(v)
	}
}

// valuesOf calls the index function. An object on which it panics has no
// values; that is reported once, when the object comes in.
func (i *Index[T, V]) valuesOf(e *entry[T], o T, report bool) (values []V) {
	defer func() {
		if p := recover(); p != nil {
			values = nil
			if report {
				failure := &IndexError{Index: i.name, Key: e.key(), Panic: p}
				if len(i.x.failures) < keptStacks {
					failure.Stack = debug.Stack()
				}
				i.x.failures = append(i.x.failures, failure)
			}
		}
	}()
	values = i.values(o)
	if i.looseType {
		for _, v := range values {
			i.buckets.get(v) // panics where v cannot be a key
			if v != v {
				panic(fmt.Sprintf("the value %v does not equal itself, so that nobody can look for it", v))
			}
		}
	}
	return values
}
