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
type cursor[T object.Head] struct {
	chunks []*chunk[T]
	closed *closedWalk[T] // where chunks come from; nil if they are all there
}

// more reports whether there is another chunk.
func (c *cursor[T]) more() bool {
	if len(c.chunks) == 0 {
		c.chunks = c.closed.open()
	}
	return len(c.chunks) > 0
}

// next goes on to the next chunk, and returns what is in it.
func (c *cursor[T]) next() []T {
	items := c.chunks[0].items
	c.chunks = c.chunks[1:]
	return items
}

// walk returns a cursor of a view.
func (v View[T]) walk() cursor[T] { return cursor[T]{chunks: v.chunks} }

// walkClosed returns a cursor of a view of what has to be opened.
func walkClosed[T object.Head](v closedView[T]) cursor[T] {
	return cursor[T]{closed: &closedWalk[T]{view: v, opened: []*chunk[T]{{items: make([]T, 1)}}}}
}

// closedWalk opens what stands in a list, one object after the other.
type closedWalk[T object.Head] struct {
	view   closedView[T]
	at     int
	opened []*chunk[T] // with the object that was opened last
}

// open returns a chunk with the next object that can be opened, which is good until the
// next one, or nothing.
func (w *closedWalk[T]) open() []*chunk[T] {
	if w == nil {
		return nil
	}
	for w.at < w.view.Len() {
		o, ok := w.view.open(w.at, nil)
		if w.at++; ok {
			w.opened[0].items[0] = o
			return w.opened
		}
	}
	return nil
}
