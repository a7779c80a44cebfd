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

// IndexError reports that an index function panicked. The object is in the cache under its key, but not in
// that index. It also reports an object that turns out to have been modified while it was cached (L16).
type IndexError struct {
	Index string // the name given to AddIndex
	Key   object.Key
	Panic any
	Stack []byte // nil after the first few failures in one Write
}

// keptStacks is the number of stack traces kept per Write. A function that panics on one object often panics
// on all of them, and each stack trace takes up a few KiB.
const keptStacks = 10

func (e *IndexError) Error() string {
	if _, ok := e.Panic.(changedInPlace); ok {
		return fmt.Sprintf("index %q: %s was modified while cached, and was indexed under values it no longer has; "+
			"cached objects are shared: modify a copy", e.Index, object.FormatKey(e.Key))
	}
	if err, ok := e.Panic.(unopened); ok {
		return fmt.Sprintf("index %q: %s cannot be opened: %v; lookups in this index miss the object until a version of it is indexed", e.Index, object.FormatKey(e.Key), err.error)
	}
	return fmt.Sprintf("index %q: function panicked on %s: %v; lookups in this index miss the object until a version of it is indexed without a panic",
		e.Index, object.FormatKey(e.Key), e.Panic)
}

// Index looks up objects by values that a function computes from them. It is created by AddIndex and
// identified by its pointer: two indexes may have the same name.
type Index[T object.Head, V comparable] struct {
	_  [0]*T // prevents conversion between indexes of different types
	_  [0]*V
	of *index
}

// index is an Index without its type parameters.
type index struct {
	name  string
	x     *Indexer
	opens bool // entries are opened for the function and for lookups
	loose bool // a value may be incomparable, or unequal to itself

	// draw calls the index function on o. It calls drew for each value, and then began if drew returns false.
	draw    func(i *index, o object.Head)
	buckets table // holds a *bucket for each value; the buckets are guarded by x.mu

	// Used only by the writer:
	drawn      []*bucket            // buckets of the current object
	draws      uint64               // sequence number of the current object
	before     []*bucket            // buffer for the buckets of the object's previous state
	remembered map[*entry][]*bucket // buckets of each entry; nil unless entries are opened
}

// AddIndex adds an index to x, which may be in use. Before it returns, it indexes all existing objects except
// those on which the function panics. The function must depend solely on the object and must not modify it.
// The name appears only in messages.
func AddIndex[T object.Head, V comparable](x *Indexer, name string, values func(T) []V) (*Index[T, V], []*IndexError) {
	i := newIndex(x, name, drawing(values), reflect.TypeFor[V]())
	return &Index[T, V]{of: i}, i.fill()
}

// AddIndexOpened is like AddIndex for a cache whose entries are Openers; its function receives the opened
// objects. It remembers each object's values, so the old object need not be opened when it changes or is
// removed. An object that cannot be opened is not in the index.
func AddIndexOpened[T object.Object, V comparable](x *Indexer, name string, values func(T) []V) (*Index[T, V], []*IndexError) {
	i := newIndex(x, name, drawing(values), reflect.TypeFor[V]())
	i.opens, i.remembered = true, make(map[*entry][]*bucket)
	return &Index[T, V]{of: i}, i.fill()
}

// drawing returns index.draw for a function. A value is boxed on the heap only if it needs a new bucket.
func drawing[T object.Head, V comparable](values func(T) []V) func(*index, object.Head) {
	return func(i *index, o object.Head) {
		for _, v := range values(o.(T)) {
			if !i.drew(v) {
				i.began(v)
			}
		}
	}
}

func newIndex(x *Indexer, name string, draw func(*index, object.Head), values reflect.Type) *index {
	i := &index{name: name, x: x, draw: draw, buckets: newTable()}
	switch values.Kind() {
	case reflect.Interface, reflect.Struct, reflect.Array, reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		i.loose = true
	}
	return i
}

// fill indexes all cached objects and adds i to the cache's indexes.
func (i *index) fill() []*IndexError {
	x := i.x
	return x.Write(func(Writer) {
		for _, e := range x.objects {
			x.calling.note(&i.name, e)
			i.insert(e)
		}
		x.indexes = append(x.indexes, i)
	})
}

// Remove removes the index from the cache. After that, writes do not update it, and lookups find nothing.
// Removing it again does nothing. An index function must not call it.
func (i *Index[T, V]) Remove() { i.of.removeAll() }

func (i *index) removeAll() {
	i.x.Write(func(Writer) {
		i.x.indexes = slices.DeleteFunc(i.x.indexes, func(other *index) bool { return other == i })
		i.buckets.clear()
		clear(i.remembered)
		i.drawn, i.before = nil, nil // they point to buckets
	})
}

// Name returns the name given to AddIndex.
func (i *Index[T, V]) Name() string { return i.of.name }

// Get yields the objects with the value v, in no particular order, as of the start of the iteration. Nothing
// is copied; the objects must not be modified.
func (i *Index[T, V]) Get(v V) iter.Seq[T] {
	return func(yield func(T) bool) { // see cursor
		for c := i.of.walk(v); c.more(); {
			for _, o := range c.next() {
				if !yield(o.(T)) {
					return
				}
			}
		}
	}
}

func (i *index) walk(v any) cursor { return i.view(v).walk(i.opens) }

// Heads is like Get for callers that need only heads. It opens no objects.
func (i *Index[T, V]) Heads(v V) iter.Seq[object.Head] {
	return func(yield func(object.Head) bool) {
		for o := range i.of.view(v).All() {
			if !yield(o) {
				return
			}
		}
	}
}

// HeadsOfAny yields each object that has any of the values, without duplicates, as of the start of the
// iteration. It opens no objects.
func (i *Index[T, V]) HeadsOfAny(values []V) iter.Seq[object.Head] {
	return func(yield func(object.Head) bool) { i.of.any(boxed(values), yield) }
}

func boxed[V any](values []V) []any {
	all := make([]any, len(values))
	for n, v := range values {
		all[n] = v
	}
	return all
}

func (i *index) any(values []any, yield func(object.Head) bool) {
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

// views returns a view for each value. All views reflect the same point in time.
func (i *index) views(values []any) []View {
	i.x.mu.RLock()
	defer i.x.mu.RUnlock()
	var views []View
	for _, v := range values {
		if b := i.bucket(v); b != nil {
			views = append(views, b.view())
		}
	}
	return views
}

// Len returns the number of objects with the value v.
func (i *Index[T, V]) Len(v V) int { return i.of.len(v) }

func (i *index) len(v any) int {
	i.x.mu.RLock()
	defer i.x.mu.RUnlock()
	if b := i.bucket(v); b != nil {
		return b.len()
	}
	return 0
}

// Values returns all values that have at least one object, in no particular order.
func (i *Index[T, V]) Values() []V {
	i.of.x.mu.RLock()
	defer i.of.x.mu.RUnlock()
	all := make([]V, 0)
	for v := range i.of.buckets.all() {
		typed, _ := v.(V) // a nil interface is not of type V
		all = append(all, typed)
	}
	return all
}

func (i *index) view(v any) View {
	return i.x.view(func() *vector {
		if b := i.bucket(v); b != nil {
			return &b.vector
		}
		return nil
	})
}

// bucket is the list of objects that share a value.
type bucket struct {
	vector
	value any // does not reference any object's memory
	at    map[*entry]uint32
	drawn uint64 // value of index.draws for the last object with the value
}

// bucket returns the bucket for a value, or nil if no object has it.
func (i *index) bucket(v any) *bucket {
	b, _ := i.buckets.get(v).(*bucket)
	return b
}

// insert adds e to the index. As with update and remove, the caller must hold the write lock.
func (i *index) insert(e *entry) {
	for _, b := range i.drawFrom(e, e.object, true) {
		b.put(e)
	}
	i.remember(e)
}

// update is called when e already contains the new object.
func (i *index) update(e *entry, old object.Head) {
	before := i.had(e, old)
	after := i.drawFrom(e, e.object, true)
	for _, b := range after {
		b.put(e)
	}
	i.leave(before, e)
	i.remember(e)
}

func (i *index) remove(e *entry) {
	before := i.had(e, e.object)
	i.draws++ // so that e leaves every bucket
	i.leave(before, e)
	delete(i.remembered, e)
}

// leave removes e from its old buckets, except the ones just drawn. If an old bucket does not contain e, the
// object was modified after it was indexed, and all buckets are searched for e.
func (i *index) leave(before []*bucket, e *entry) {
	changed := false
	for _, b := range before {
		if b.drawn != i.draws && !i.take(b, e) {
			changed = true
		}
	}
	if !changed {
		return
	}
	for _, list := range i.buckets.all() {
		if b := list.(*bucket); b.drawn != i.draws {
			i.take(b, e)
		}
	}
	i.x.failures = append(i.x.failures, &IndexError{Index: i.name, Key: e.key(), Panic: changedInPlace{}})
}

// changedInPlace is the IndexError.Panic for an object that was modified while it was cached.
type changedInPlace struct{}

// had returns the buckets for o, the indexed state of e. The result is valid until the next call.
func (i *index) had(e *entry, o object.Head) []*bucket {
	if i.remembered != nil {
		return i.remembered[e]
	}
	i.before = append(i.before[:0], i.drawFrom(e, o, false)...)
	return i.before
}

// remember stores the buckets just drawn for e, if the index remembers buckets.
func (i *index) remember(e *entry) {
	if i.remembered == nil {
		return
	}
	if len(i.drawn) == 0 {
		delete(i.remembered, e)
		return
	}
	i.remembered[e] = slices.Clone(i.drawn)
}

// put adds e's object to the bucket, or updates it.
func (b *bucket) put(e *entry) {
	if at, ok := b.at[e]; ok {
		b.set(at)
	} else {
		b.at[e] = b.push(e)
	}
}

// take removes e from the bucket. It reports whether e was present.
func (i *index) take(b *bucket, e *entry) bool {
	at, had := b.at[e]
	if had {
		delete(b.at, e)
		if moved := b.remove(at); moved != nil {
			b.at[moved] = at
		}
	}
	i.drop(b)
	return had
}

// drop removes an empty bucket from the index.
func (i *index) drop(b *bucket) {
	if b.len() == 0 {
		i.buckets.remove(b.value, b)
	}
}

// drawFrom calls the index function and returns the buckets for its values, valid until the next call. If the
// function panics, the object has no values; the panic is reported once, when the object arrives.
func (i *index) drawFrom(e *entry, o object.Head, report bool) []*bucket {
	i.drawn = i.drawn[:0]
	i.draws++
	defer i.panicked(e, report)
	if i.opens {
		opened, err := o.(Opener).Open()
		if err != nil {
			panic(unopened{err}) // reported later, without holding locks
		}
		o = opened
	}
	i.draw(i, o)
	return i.drawn
}

// panicked recovers from a panic in the index function.
func (i *index) panicked(e *entry, report bool) {
	p := recover()
	if p == nil {
		return
	}
	for _, b := range i.drawn {
		i.drop(b)
	}
	i.drawn = i.drawn[:0]
	i.draws++ // so that no bucket is treated as drawn
	if !report {
		return
	}
	failure := &IndexError{Index: i.name, Key: e.key(), Panic: p}
	if len(i.x.failures) < keptStacks {
		failure.Stack = debug.Stack()
	}
	i.x.failures = append(i.x.failures, failure)
}

// drew records a value of the current object. It returns false if the value has no bucket yet. It
// panics if the value cannot be a map key.
func (i *index) drew(v any) bool {
	b := i.bucket(v)
	if b == nil {
		return false
	}
	i.note(b)
	return true
}

// began creates the bucket for a new value and records it.
func (i *index) began(v any) {
	if i.loose {
		if _, found := map[any]struct{}{v: {}}[v]; !found {
			panic(fmt.Sprintf("the value %v does not equal itself, so no lookup can find it", v))
		}
	}
	b := &bucket{value: apart(v), at: make(map[*entry]uint32)}
	i.buckets.put(b.value, b)
	i.note(b)
}

// note adds a bucket to the current object's buckets.
func (i *index) note(b *bucket) {
	if b.drawn != i.draws {
		b.drawn = i.draws
		i.drawn = append(i.drawn, b)
	}
}

// apart returns a copy of v that, as far as possible, does not reference its object's memory. A string may be
// a substring of the object's entire text.
func apart(v any) any {
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		return strings.Clone(v)
	}
	own := reflect.New(reflect.TypeOf(v)).Elem()
	own.Set(reflect.ValueOf(v))
	cloneStrings(own)
	return own.Interface()
}

// cloneStrings clones the strings in v, except those in unexported fields and behind pointers and
// interfaces.
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
