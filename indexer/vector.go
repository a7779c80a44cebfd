package indexer

import (
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/millrace-dev/millrace/object"
)

// chunkSize is how many objects a chunk holds. Copying one costs the writer
// some 50 ns; the list of chunks is a 64th of the list of objects.
const chunkSize = 64

// vector is a list of objects that gives out immutable views at any time, for nothing.
// It is a list of chunks; all but the last are full.
//
//	vector, epoch 7:  [ chunk of epoch 4 | chunk of epoch 7 | chunk of epoch 5 ]
//	view of epoch 6:  [ the same chunk   | its older copy   | the same chunk   ]
//
// To take a view: if there is one of the content as it is, take that; otherwise
// make one of the list of chunks as it is, and leave it for the next reader.
// To write: if there is a view, withdraw it, copy the list and begin a new
// epoch; if the chunk is of an older epoch, copy it; then write. Between two
// views any number of writes to one chunk copy it once.
//
// Writes need exclusive access, to make a view shared access, and to take one
// that is there none at all: what it shows is never written to.
type vector struct {
	chunks []*chunk
	owners []*entry // whose object stands at each position
	epoch  uint64
	shown  atomic.Pointer[View] // of the content as it is; nil from a write until somebody reads
}

type chunk struct {
	epoch uint64 // in which it was made; it is written to in no later one
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

// own makes the list of chunks the vector's alone.
func (v *vector) own() {
	if v.shown.Load() != nil {
		v.shown.Store(nil)
		v.chunks = slices.Clone(v.chunks)
		v.epoch++
	}
}

// chunk returns the chunk number n to be written to.
func (v *vector) chunk(n int) *chunk {
	c := v.chunks[n]
	if c.epoch != v.epoch {
		c = &chunk{epoch: v.epoch, items: slices.Clone(c.items)}
		v.chunks[n] = c
	}
	return c
}

// set puts the object of the position's owner there, after it changed.
func (v *vector) set(at uint32) {
	v.own()
	v.chunk(int(at / chunkSize)).items[at%chunkSize] = v.owners[at].object
}

// push adds the object of e at the end and returns its position.
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

// remove takes out what stands at a position. If that was not the last, the last takes
// its place, and remove returns the owner of that one.
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

// View is a list of objects that never changes.
type View struct {
	chunks []*chunk
	n      int
}

// Len is how many objects there are.
func (v View) Len() int { return v.n }

// At returns the object at a position from 0 to Len.
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

// table maps values to lists, and namespaces to their versions. Readers need no lock; changes are made by one
// goroutine at a time. Make it with newTable.
//
// lists is a *sync.Map that the type does not name. A package that names a view compiles the
// methods of each generic type that it reaches through fields, and those inside of sync.Map take
// half a megabyte.
type table struct{ lists any }

func newTable() table { return table{lists: new(sync.Map)} }

// get returns the list of v, nil if there is none.
func (t table) get(v any) any {
	list, _ := t.lists.(*sync.Map).Load(v)
	return list
}

func (t table) put(v, list any) { t.lists.(*sync.Map).Store(v, list) }

// remove takes a list away, unless there is another one.
func (t table) remove(v, list any) { t.lists.(*sync.Map).CompareAndDelete(v, list) }

// forget takes away whatever v has.
func (t table) forget(v any) { t.lists.(*sync.Map).Delete(v) }

func (t table) clear() { t.lists.(*sync.Map).Clear() }

// all yields the values that have a list, and their lists.
func (t table) all() iter.Seq2[any, any] { return t.lists.(*sync.Map).Range }
