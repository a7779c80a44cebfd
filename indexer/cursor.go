package indexer

import "github.com/millrace-dev/millrace/object"

// cursor walks a list, chunk by chunk: the chunks of a list of objects, or one that has an
// object which was opened for it. So a loop over either has one yield, and the compiler puts
// the body of the caller's loop in its place. It is small enough to be in registers:
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
	opens  *openingWalk // where chunks come from; nil if they are all there
}

// more reports whether there is another chunk.
func (c *cursor) more() bool {
	if len(c.chunks) == 0 {
		c.chunks = c.opens.open()
	}
	return len(c.chunks) > 0
}

// next goes on to the next chunk, and returns what is in it.
func (c *cursor) next() []object.Head {
	items := c.chunks[0].items
	c.chunks = c.chunks[1:]
	return items
}

// walk returns a cursor of a view, whose objects have to be opened if opens is set.
func (v View) walk(opens bool) cursor {
	if !opens {
		return cursor{chunks: v.chunks}
	}
	return cursor{opens: &openingWalk{view: v, opened: []*chunk{{items: make([]object.Head, 1)}}}}
}

// openingWalk opens what stands in a list, one object after the other.
type openingWalk struct {
	view   View
	at     int
	opened []*chunk // with the object that was opened last
}

// open returns a chunk with the next object that can be opened, which is good until the
// next one, or nothing.
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
