package wire

import (
	"reflect"
	"sync"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire/internal/head"
)

// product is what a decoder makes of what it reads: objects, or packed ones.
type product[H object.Head] struct {
	of       func(object.Object) (H, error) // of an object that was decoded
	bookmark func(object.Object) (H, error) // of one that nobody keeps
	packer   packsBytes[H]                  // nil where objects are wanted
}

// packsBytes packs an object that was never decoded. It is a Packer.
type packsBytes[H object.Head] interface {
	kept() []string // the annotations that are to be known
	layout(goType reflect.Type, kind object.GVK, code code) *layout
	packBytes(l *layout, h *head.Head, raw []byte) H
}

// wholes is the product of a decoder of whole objects, which are all of type T.
func wholes[T object.Object]() product[T] {
	itself := func(o object.Object) (T, error) { return o.(T), nil }
	return product[T]{of: itself, bookmark: itself}
}

// ofBookmarks is what is made of bookmarks.
func (m product[H]) ofBookmarks() product[H] {
	return product[H]{of: m.bookmark, bookmark: m.bookmark}
}

// bench is where an object is packed.
type bench struct {
	head head.Head
	room []byte // for the bytes that are kept of the object
}

var benches = sync.Pool{New: func() any { return new(bench) }}

// clean makes the bench ready for the next one. Nothing of an object stays on it.
func (b *bench) clean() {
	b.head.Reset()
	if cap(b.room) > largestBuffer {
		b.room = nil
	}
	benches.Put(b)
}
