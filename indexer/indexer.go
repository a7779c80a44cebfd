package indexer

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
)

// Indexer has one entry per object, and lists that point to the entries.
//
//	objects:  shop/web-0 → entry ─┐      entry = key, newest object, and its
//	          shop/web-1 → entry ─┼─┐            index in each list
//	                              │ │
//	all                           │ │    list of every object
//	namespaces         shop   → list     list of the namespace's objects
//	index "node"       node-1 → bucket   list, plus each entry's index in it
//
// A write takes the lock once for a whole batch, stores each new object in its entry and its slot in each
// list, and moves it between the buckets of each index whose values changed.
//
// A lookup finds the list and takes a view of it at no cost. A view never changes; see vector. If the list
// already has a view, no lock is taken; see Indexer.view.
type Indexer struct {
	mu         sync.RWMutex // guards the fields below and the buckets of all indexes
	objects    map[object.Key]*entry
	all        vector
	namespaces table
	indexes    []*index
	figures    figures
	advanced   []namespaceRV // versions set by the current write
	generation uint32        // generation of the last Replace or Trim
	failures   []*IndexError // failures in the current write

	// The following fields are read without locking, because an index function may keep mu locked for a long
	// time.
	shown   atomic.Pointer[figures] // as of the last Write
	rvs     table                   // the RV of each namespace for which it differs from figures.rv, as of the last Write
	calling calling
}

// figures describe the cache as a whole.
type figures struct {
	objects int
	rv      string
}

// namespaceRV is a namespace's resource version; empty to remove it.
type namespaceRV struct{ namespace, rv string }

// calling is the current call to an index function. It is changed only by the writer.
type calling struct {
	made  time.Time              // earlier than any call
	noted bool                   // the current write has called an index function
	began atomic.Int64           // time of the write's first such call, in nanoseconds since made
	index atomic.Pointer[string] // index name
	entry atomic.Pointer[entry]  // nil if no call is in progress
}

// note records the call about to start.
func (c *calling) note(index *string, e *entry) {
	if !c.noted {
		c.noted = true
		c.began.Store(int64(time.Since(c.made)))
	}
	c.index.Store(index)
	c.entry.Store(e)
}

// end records that no call is in progress.
func (c *calling) end() {
	if c.noted {
		c.entry.Store(nil)
	}
}

// namespace is the list of objects in a namespace. Its name must not reference an object's text, because that
// would keep the text alive.
type namespace struct {
	vector
	name string
}

// entry holds the object cached under one key.
type entry struct {
	name        string // does not reference any object's memory either
	object      object.Head
	namespace   *namespace
	at          uint32 // index in Indexer.all
	inNamespace uint32 // position in namespace
	generation  uint32 // generation of the last Replace that contained this object, or when it was added
}

func (e *entry) key() object.Key { return object.Key{Namespace: e.namespace.name, Name: e.name} }

// New returns an empty cache.
func New() *Indexer {
	x := &Indexer{objects: make(map[object.Key]*entry), namespaces: newTable(), rvs: newTable()}
	x.calling.made = time.Now()
	x.shown.Store(&figures{})
	return x
}

// Reader returns a reader for x that yields entries as they were written.
func (x *Indexer) Reader() Reader[object.Head] { return ReaderOf[object.Head](x) }

// Write calls batch, which changes the cache through the Writer. Readers see either none or all of its
// changes. Write returns failures in index functions; they do not undo the changes. Only one Write runs at a
// time. The Writer must not be retained.
func (x *Indexer) Write(batch func(Writer)) []*IndexError {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.calling.noted = false
	defer x.calling.end()
	batch(Writer{to: x})
	x.show() // under the lock, so that no reader sees new objects with old figures
	failures := x.failures
	x.failures = nil
	return failures
}

// show publishes the figures.
func (x *Indexer) show() {
	now, before := &x.figures, x.shown.Load()
	if now.objects = len(x.objects); *now != *before {
		x.shown.Store(new(*now))
	}
	for _, of := range x.advanced {
		if of.rv == "" {
			x.rvs.forget(of.namespace)
		} else {
			x.rvs.put(of.namespace, of.rv)
		}
	}
	x.advanced = x.advanced[:0]
}

// Call is a call to an index function.
type Call struct {
	Index string // the name given to AddIndex
	Key   object.Key
	Since time.Time // time of the first call made by its Write or AddIndex
}

// Calling returns the index function call in progress, if any. Until that call returns, the cache does not
// change, and changed lists cannot be read.
func (x *Indexer) Calling() (c Call, ok bool) {
	e := x.calling.entry.Load()
	if e == nil {
		return c, false
	}
	return Call{Index: *x.calling.index.Load(), Key: e.key(), Since: x.calling.made.Add(time.Duration(x.calling.began.Load()))}, true
}

// Writer changes the cache. It is valid until the batch function returns. Its field and Reader's field must
// have different names, because any package can convert between struct types with identical fields (L16).
type Writer struct{ to *Indexer }

// view returns the objects in the list returned by find, or none if find returns nil. If the list has a view,
// no lock is taken. A write invalidates the views of all lists it changes before it releases the lock, and
// readers cannot see its changes earlier, so a reader that has seen part of a write sees all of it from then
// on (L12). A list may be missing because of a write in progress, so view checks again under the lock.
func (x *Indexer) view(find func() *vector) View {
	if list := find(); list != nil {
		if view := list.shown.Load(); view != nil {
			return *view
		}
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	if list := find(); list != nil {
		return list.view()
	}
	return View{}
}

// list returns a namespace's list, or nil if there is none.
func (x *Indexer) list(namespace string) *vector {
	if in := x.namespace(namespace); in != nil {
		return &in.vector
	}
	return nil
}

// namespace returns the list for a namespace, or nil if it has no objects.
func (x *Indexer) namespace(name string) *namespace {
	in, _ := x.namespaces.get(name).(*namespace)
	return in
}

func (x *Indexer) everything() *vector { return &x.all }

// Peek is like Get, for callers that must not block. It finds nothing while a Write is in progress, and does
// not retain the key.
func (x *Indexer) Peek(key object.Key) (object.Head, bool) {
	if !x.mu.TryRLock() {
		return nil, false
	}
	defer x.mu.RUnlock()
	return x.get(key)
}

// Absent reports whether no object is cached under key. It never waits, and returns false while a Write is in
// progress.
func (x *Indexer) Absent(key object.Key) bool {
	if !x.mu.TryRLock() {
		return false
	}
	defer x.mu.RUnlock()
	_, cached := x.get(key)
	return !cached
}

// get is Get for callers that hold x.mu.
func (x *Indexer) get(key object.Key) (object.Head, bool) {
	if e, ok := x.objects[key]; ok {
		return e.object, true
	}
	return nil, false
}

// Get returns the object under key.
func (w Writer) Get(key object.Key) (object.Head, bool) { return w.to.get(key) }

// Set stores o under key and returns the previous object. If o has the same UID and resource version as the
// cached object, it is the same object: the cached pointer is kept, and changed is false.
func (w Writer) Set(key object.Key, o object.Head) (old object.Head, existed, changed bool) {
	return w.to.set(key, o, false)
}

// set implements Set. If anew is true, two objects are the same only if the pointers are equal.
func (x *Indexer) set(key object.Key, o object.Head, anew bool) (old object.Head, existed, changed bool) {
	e, ok := x.objects[key]
	if !ok {
		x.add(key, o)
		return old, false, true
	}
	old = e.object
	if old == o || !anew && same(old, o) {
		return old, true, false
	}
	x.change(e, o)
	return old, true, true
}

func (x *Indexer) add(key object.Key, o object.Head) {
	in := x.namespace(key.Namespace)
	if in == nil {
		in = &namespace{name: strings.Clone(key.Namespace)}
		x.namespaces.put(in.name, in)
	}
	e := &entry{name: strings.Clone(key.Name), object: o, namespace: in, generation: x.generation}
	e.at, e.inNamespace = x.all.push(e), in.push(e)
	x.objects[e.key()] = e
	x.index(e, func(i *index) { i.insert(e) })
}

func (x *Indexer) change(e *entry, o object.Head) {
	old := e.object
	e.object = o
	x.all.set(e.at)
	e.namespace.set(e.inNamespace)
	x.index(e, func(i *index) { i.update(e, old) })
}

// index calls act for each index.
func (x *Indexer) index(e *entry, act func(*index)) {
	for _, i := range x.indexes {
		x.calling.note(&i.name, e)
		act(i)
	}
	x.calling.end()
}

// Delete removes the object under key, if any, and returns it.
func (w Writer) Delete(key object.Key) (old object.Head, existed bool) {
	e, ok := w.to.objects[key]
	if !ok {
		return old, false
	}
	w.to.remove(e)
	return e.object, true
}

func (x *Indexer) remove(e *entry) {
	delete(x.objects, e.key())
	if moved := x.all.remove(e.at); moved != nil {
		moved.at = e.at
	}
	if moved := e.namespace.remove(e.inNamespace); moved != nil {
		moved.inNamespace = e.inNamespace
	}
	if e.namespace.len() == 0 {
		x.namespaces.remove(e.namespace.name, e.namespace)
	}
	x.index(e, func(i *index) { i.remove(e) })
}

// SetRV sets the resource version of the cache.
func (w Writer) SetRV(rv string) { w.to.figures.rv = rv }

// SetNamespaceRV sets the resource version of one namespace, if it is later than the version set by SetRV. An
// empty version removes it.
func (w Writer) SetNamespaceRV(namespace, rv string) {
	w.to.advanced = append(w.to.advanced, namespaceRV{namespace, rv})
}

// Change describes the change to one key. Existed is false if the object was added; Exists is false if it was
// deleted.
type Change struct {
	Key             object.Key
	Old, New        object.Head
	Existed, Exists bool
}

// Replace replaces the entire content of a namespace, or of the cache if namespace is empty
// (metav1.NamespaceAll), with items. It calls each for every change: first for removed objects, in no
// particular order, then for added and changed ones, in the order of items. An object whose UID differs from
// the cached one is a different object: the old one is deleted and the new one added. An object with the same
// UID and resource version as the cached one is unchanged: the cached pointer is kept, and each is not
// called.
func (w Writer) Replace(namespace string, items []object.Head, each func(Change)) {
	w.to.replace(namespace, items, false, each)
}

// Renew is like Replace, for use after the server's history was rolled back, when the same version may stand
// for different content. An item is treated as unchanged only if it is the very object in the cache.
func (w Writer) Renew(namespace string, items []object.Head, each func(Change)) {
	w.to.replace(namespace, items, true, each)
}

func (x *Indexer) replace(namespace string, items []object.Head, anew bool, each func(Change)) {
	x.generation++
	for _, item := range items {
		if e, ok := x.objects[object.KeyOf(item)]; ok && e.object.GetUID() == item.GetUID() {
			e.generation = x.generation
		}
	}
	list := &x.all
	if namespace != metav1.NamespaceAll {
		list = x.list(namespace)
	}
	if list != nil {
		x.sweep(list, each)
	}
	for _, item := range items {
		key := object.KeyOf(item)
		if old, existed, changed := x.set(key, item, anew); changed {
			each(Change{Key: key, Old: old, New: item, Existed: existed, Exists: true})
		}
	}
}

// Trim removes the objects in all namespaces for which keep returns false, and calls each for every removed
// object, namespace by namespace.
func (w Writer) Trim(keep func(namespace string) bool, each func(Change)) {
	w.to.generation++
	var names []string
	for name := range w.to.namespaces.all() {
		names = append(names, name.(string))
	}
	slices.Sort(names)
	for _, namespace := range names {
		if !keep(namespace) {
			w.to.sweep(w.to.list(namespace), each)
		}
	}
}

// Drop removes all objects for which drop returns true, and calls each for every removed object. Neither
// function may read from the cache.
func (w Writer) Drop(drop func(object.Head) bool, each func(Change)) {
	list := &w.to.all
	for at := list.len() - 1; at >= 0; at-- { // the last object moves into the slot of a removed one
		if e := list.owners[at]; drop(e.object) {
			w.to.remove(e)
			each(Change{Key: e.key(), Old: e.object, Existed: true})
		}
	}
}

// sweep removes the objects in list that belong to earlier generations. It runs backwards, because the last
// object moves into the slot of a removed one.
func (x *Indexer) sweep(list *vector, each func(Change)) {
	for at := list.len() - 1; at >= 0; at-- {
		if e := list.owners[at]; e.generation != x.generation {
			x.remove(e)
			each(Change{Key: e.key(), Old: e.object, Existed: true})
		}
	}
}

// same reports whether a and b are the same version of the same object.
func same(a, b object.Head) bool {
	rv := a.GetResourceVersion()
	return rv != "" && rv == b.GetResourceVersion() && a.GetUID() == b.GetUID()
}
