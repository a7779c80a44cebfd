package indexer

import "github.com/millrace-dev/millrace/object"

// cursor walks a list chunk by chunk: either the chunks of an object list, or chunks holding a single object
// opened on demand. Loops over either kind contain a single yield, so the compiler can inline the caller's
// loop body. It is small enough to be kept in registers:
//
//	for c := walk(); c.more(); {
//		for _, o := range c.next() {
//			if !yield(o) {
//				return
//			}
//		}
//	}
type cursor struct {
	chunks []*chunk
	opens  *openingWalk // opens the next chunk; nil if no objects need opening
}

// more reports whether there is another chunk.
func (c *cursor) more() bool {
	if len(c.chunks) == 0 {
		c.chunks = c.opens.open()
	}
	return len(c.chunks) > 0
}

// next returns the next chunk's items and advances.
func (c *cursor) next() []object.Head {
	items := c.chunks[0].items
	c.chunks = c.chunks[1:]
	return items
}

// walk returns a cursor over a view. If opens is set, it opens the objects.
func (v View) walk(opens bool) cursor {
	if !opens {
		return cursor{chunks: v.chunks}
	}
	return cursor{opens: &openingWalk{view: v, opened: []*chunk{{items: make([]object.Head, 1)}}}}
}

// openingWalk opens the objects in a list one by one.
type openingWalk struct {
	view   View
	at     int
	opened []*chunk // space for the last opened object
}

// open returns a chunk with the next object that can be opened, valid until the next call, or nil.
func (w *openingWalk) open() []*chunk {
	if w == nil {
		return nil
	}
	for w.at < w.view.Len() {
		o, ok := opened(w.view.At(w.at))
		if w.at++; ok {
			w.opened[0].items[0] = o
			return w.opened
		}
	}
	return nil
}
