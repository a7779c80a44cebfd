// Package memory makes and keeps what decoded objects are made of: text, the elements
// of slices, and what a decoder uses again. Nothing in it is safe for concurrent use
// except ArrayMaker.
package memory

import "unsafe"

// Text is the strings and byte slices of an object that is being decoded. At first
// they point into the body. Commit moves them into one piece of memory of their
// exact size, so an object keeps nothing of the body alive and costs one allocation
// for all its text.
type Text struct {
	refs []reference
	size int
}

// reference is where a pointer to n bytes of the body is kept: the first word of
// a string or of a slice.
type reference struct {
	at *unsafe.Pointer
	n  int
}

// SetString makes the string at at those bytes of the body. A place is used once.
func (t *Text) SetString(at *string, text []byte) {
	if len(text) == 0 {
		*at = "" // unsafe.String would hold on to the body
		return
	}
	*at = unsafe.String(unsafe.SliceData(text), len(text))
	t.refs = append(t.refs, reference{(*unsafe.Pointer)(unsafe.Pointer(at)), len(text)})
	t.size += len(text)
}

// SetBytes makes the slice at at those bytes of the body. A place is used once.
func (t *Text) SetBytes(at *[]byte, data []byte) {
	if len(data) == 0 {
		*at = []byte{}
		return
	}
	*at = data[:len(data):len(data)]
	t.refs = append(t.refs, reference{(*unsafe.Pointer)(unsafe.Pointer(at)), len(data)})
	t.size += len(data)
}

// Commit moves all text into memory of its own.
func (t *Text) Commit() {
	if t.size == 0 {
		return
	}
	text := make([]byte, 0, t.size)
	for i := range t.refs {
		ref := &t.refs[i]
		start := len(text)
		text = append(text, unsafe.Slice((*byte)(*ref.at), ref.n)...)
		*ref.at = unsafe.Pointer(&text[start])
	}
	t.Discard()
}

// maxReusedRefs is for how many references room is kept between objects: one huge object
// must not stay in memory for the hours that a watch lasts.
const maxReusedRefs = 1 << 14

// Discard forgets the text. Call it if decoding fails.
func (t *Text) Discard() {
	if cap(t.refs) > maxReusedRefs {
		t.refs = nil
	}
	clear(t.refs)
	t.refs, t.size = t.refs[:0], 0
}

// String makes a string of bytes that last.
func String(raw []byte) string { return unsafe.String(unsafe.SliceData(raw), len(raw)) }

// Bytes returns the bytes of a string, which must not be written to.
func Bytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
