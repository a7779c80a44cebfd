package wire

import (
	"sync"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire/internal/head"
)

// product is what a decoder makes of what it reads: objects, or packed ones.
type product struct {
	of       func(object.Object) (object.Head, error) // of an object that was decoded
	bookmark func(object.Object) (object.Head, error) // of one that nobody keeps
	packer   *Packer                                  // nil where objects are wanted
}

// wholes is the product of a decoder of whole objects.
func wholes() product {
	itself := func(o object.Object) (object.Head, error) { return o, nil }
	return product{of: itself, bookmark: itself}
}

// ofBookmarks is what is made of bookmarks.
func (m product) ofBookmarks() product {
	return product{of: m.bookmark, bookmark: m.bookmark}
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
	if cap(b.room) > maxBufferBytes {
		b.room = nil
	}
	benches.Put(b)
}
