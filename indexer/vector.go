package indexer

import (
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/millrace-dev/millrace/object"
)

// chunkSize is the number of objects in a chunk. Copying a chunk costs the writer about 50 ns, and the
// list of chunks is 64 times shorter than the list of objects.
const chunkSize = 64

// vector is a list of objects that can return an immutable view at any time, at no cost. It consists of
// chunks, all full except the last.
//
//	vector, epoch 7:  [ chunk of epoch 4 | chunk of epoch 7 | chunk of epoch 5 ]
//	view of epoch 6:  [ the same chunk   | its older copy   | the same chunk   ]
//
// A reader uses the current view if there is one; otherwise it creates a view of the current chunks and
// leaves it for the next reader. If there is a view, a writer removes it, copies the list and starts a new
// epoch; if the chunk is from an older epoch, the writer copies the chunk; then it writes. Between two views,
// a chunk is copied at most once, no matter how many writes change it.
//
// Writes need exclusive access, creating a view needs shared access, and taking an existing view needs none,
// because its chunks are never modified.
type vector struct {
	chunks []*chunk
	owners []*entry // owner of the object at each index
	epoch  uint64
	shown  atomic.Pointer[View] // view of the current content; nil from a write until the next read
}

type chunk struct {
	epoch uint64 // epoch in which the chunk was created; it is not modified in later epochs
	items []object.Head
}

func (v *vector) view() View {
	view := v.shown.Load()
	if view == nil {
		view = &View{v.chunks, len(v.owners)}
		v.shown.Store(view)
	}
	return *view
}

// own ensures that no view shares the list of chunks.
func (v *vector) own() {
	if v.shown.Load() != nil {
		v.shown.Store(nil)
		v.chunks = slices.Clone(v.chunks)
		v.epoch++
	}
}

// chunk returns chunk n for writing.
func (v *vector) chunk(n int) *chunk {
	c := v.chunks[n]
	if c.epoch != v.epoch {
		c = &chunk{epoch: v.epoch, items: slices.Clone(c.items)}
		v.chunks[n] = c
	}
	return c
}

// set stores the owner's changed object at the given index.
func (v *vector) set(at uint32) {
	v.own()
	v.chunk(int(at / chunkSize)).items[at%chunkSize] = v.owners[at].object
}

// push appends e's object and returns its index.
func (v *vector) push(e *entry) (at uint32) {
	v.own()
	at = uint32(len(v.owners))
	if at%chunkSize == 0 {
		v.chunks = append(v.chunks, &chunk{epoch: v.epoch})
	}
	c := v.chunk(int(at / chunkSize))
	c.items = append(c.items, e.object)
	v.owners = append(v.owners, e)
	return at
}

// remove removes the object at the given index. If it was not the last, the last object is moved there, and
// remove returns that object's owner.
func (v *vector) remove(at uint32) (moved *entry) {
	v.own()
	last := uint32(len(v.owners)) - 1
	if at != last {
		moved = v.owners[last]
		v.owners[at] = moved
		v.set(at)
	}
	v.owners[last] = nil
	v.owners = v.owners[:last]
	c := v.chunk(int(last / chunkSize))
	end := last % chunkSize
	clear(c.items[end:])
	if c.items = c.items[:end]; end == 0 {
		v.chunks[len(v.chunks)-1] = nil
		v.chunks = v.chunks[:len(v.chunks)-1]
	}
	return moved
}

func (v *vector) len() int { return len(v.owners) }

// View is an immutable list of objects.
type View struct {
	chunks []*chunk
	n      int
}

// Len returns the number of objects.
func (v View) Len() int { return v.n }

// At returns the object at index i, from 0 to Len-1.
func (v View) At(i int) object.Head { return v.chunks[i/chunkSize].items[i%chunkSize] }

// All yields every object.
func (v View) All() iter.Seq[object.Head] {
	return func(yield func(object.Head) bool) {
		for _, c := range v.chunks {
			for _, o := range c.items {
				if !yield(o) {
					return
				}
			}
		}
	}
}

// table maps values to lists, and namespaces to their versions. Readers need no locking; only one goroutine
// at a time may write. Create one with newTable.
//
// lists contains a *sync.Map, hidden behind an interface. A package that mentions a view compiles the methods
// of every generic type reachable through its fields, and sync.Map's methods take up half a megabyte.
type table struct{ lists any }

func newTable() table { return table{lists: new(sync.Map)} }

// get returns v's list, or nil if there is none.
func (t table) get(v any) any {
	list, _ := t.lists.(*sync.Map).Load(v)
	return list
}

func (t table) put(v, list any) { t.lists.(*sync.Map).Store(v, list) }

// remove removes a list, unless v has since been assigned another one.
func (t table) remove(v, list any) { t.lists.(*sync.Map).CompareAndDelete(v, list) }

// forget removes v's entry.
func (t table) forget(v any) { t.lists.(*sync.Map).Delete(v) }

func (t table) clear() { t.lists.(*sync.Map).Clear() }

// all yields the values and their lists.
func (t table) all() iter.Seq2[any, any] { return t.lists.(*sync.Map).Range }
