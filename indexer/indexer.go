package indexer

import (
	"sync"

	"github.com/millrace-dev/millrace/object"
)

// Indexer holds one entry for each object and lets any number of indexes point
// at the entries.
//
//	objects:  shop/web-0 → entry ─┐      entry = key + newest object
//	          shop/web-1 → entry ─┼─┐
//	                              │ │
//	index "namespace"  shop   → {entry, entry}   bucket = set of entries
//	index "node"       node-1 → {entry}          + the slice made of it for readers
//
// To write: take the lock once for a whole batch, put the new object into its
// entry, and for each index whose values for the object changed move the entry
// between buckets; where they did not, only drop the bucket's slice.
//
// To look up: find the bucket under the read lock and take its slice, making
// it first if a change dropped it. The slice is never written to again.
type Indexer[T object.Object] struct {
	mu         sync.RWMutex // guards all below and the buckets of all indexes
	objects    map[object.Key]*entry[T]
	all        snapshot[T]
	namespaces *Index[T, string]
	indexes    []anyIndex[T]
	rv         string
	generation uint64        // of the last Replace
	failures   []*IndexError // of the write in progress
}

// entry is where an object of one key lives while it is cached.
type entry[T object.Object] struct {
	key        object.Key
	object     T
	generation uint64 // of the last Replace that had this key in it
}

// New returns an empty cache.
func New[T object.Object]() *Indexer[T] {
	x := &Indexer[T]{objects: make(map[object.Key]*entry[T])}
	x.namespaces, _ = AddIndex(x, "namespace", func(o T) []string { return []string{o.GetNamespace()} })
	return x
}

// Reader returns the read side of x.
func (x *Indexer[T]) Reader() Reader[T] { return Reader[T]{x} }

// Write lets batch change the cache through a Writer. Readers see either
// nothing or all of what it did. It returns what index functions failed on: the
// change is done all the same. One Write runs at a time; the Writer must not be
// kept.
func (x *Indexer[T]) Write(batch func(Writer[T])) []*IndexError {
	x.mu.Lock()
	defer x.mu.Unlock()
	batch(Writer[T]{to: x})
	failures := x.failures
	x.failures = nil
	return failures
}

// Writer changes the cache. It is valid during the Write that handed it out.
// Its field must not have the name of Reader's: a struct type can be converted
// to another with the same fields, from anywhere (L16).
type Writer[T object.Object] struct{ to *Indexer[T] }

// Get returns the object under key.
func (w Writer[T]) Get(key object.Key) (T, bool) {
	return w.to.get(key)
}

// get is called under x.mu.
func (x *Indexer[T]) get(key object.Key) (T, bool) {
	if e, ok := x.objects[key]; ok {
		return e.object, true
	}
	var none T
	return none, false
}

// Set puts o under key.
func (w Writer[T]) Set(key object.Key, o T) {
	x := w.to
	x.all.drop()
	e, ok := x.objects[key]
	if !ok {
		e = &entry[T]{key: key, object: o}
		x.objects[key] = e
		for _, index := range x.indexes {
			index.insert(e)
		}
		return
	}
	old := e.object
	e.object = o
	for _, index := range x.indexes {
		index.update(e, old)
	}
}

// Delete removes what is under key, if anything.
func (w Writer[T]) Delete(key object.Key) {
	x := w.to
	e, ok := x.objects[key]
	if !ok {
		return
	}
	x.all.drop()
	delete(x.objects, key)
	for _, index := range x.indexes {
		index.remove(e)
	}
}

// SetRV records up to which resource version the cache is complete.
func (w Writer[T]) SetRV(rv string) { w.to.rv = rv }

// Change is what became of one key. Without Existed it was added; without
// Exists it was deleted.
type Change[T object.Object] struct {
	Key             object.Key
	Old, New        T
	Existed, Exists bool
}

// Replace makes items the whole content and tells each of what it changed:
// first what is no longer there, in no particular order, then what was added
// or changed, in the order of items. An object whose UID and resource version
// are those of the cached one is unchanged: the cached pointer stays, and each
// does not hear of it.
func (w Writer[T]) Replace(items []T, each func(Change[T])) {
	x := w.to
	x.generation++
	for _, item := range items {
		if e, ok := x.objects[object.KeyOf(item)]; ok {
			e.generation = x.generation
		}
	}
	for key, e := range x.objects {
		if e.generation != x.generation {
			w.Delete(key)
			each(Change[T]{Key: key, Old: e.object, Existed: true})
		}
	}
	for _, item := range items {
		key := object.KeyOf(item)
		old, existed := w.Get(key)
		if existed && same(old, item) {
			continue
		}
		w.Set(key, item)
		each(Change[T]{Key: key, Old: old, New: item, Existed: existed, Exists: true})
	}
}

// same reports whether a and b are one version of one object.
func same[T object.Object](a, b T) bool {
	rv := a.GetResourceVersion()
	return rv != "" && rv == b.GetResourceVersion() && a.GetUID() == b.GetUID()
}
