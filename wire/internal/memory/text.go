// Package memory allocates memory for decoded objects: text, slice elements, and values that a
// decoder reuses. Its types are not safe for concurrent use, except [ArrayMaker].
package memory

import "unsafe"

// Text collects the strings and byte slices of the object being decoded. At first they point into
// the body. [Text.Commit] moves them into one allocation of the exact size, so that an object does not keep
// any part of the body alive and needs only one allocation for all its text.
type Text struct {
	refs []reference
	size int
}

// reference is the address of a pointer to n bytes of the body: the first word of a string or
// slice.
type reference struct {
	at *unsafe.Pointer
	n  int
}

// SetString sets the string at at to bytes of the body. It must be called at most once for each
// string.
func (t *Text) SetString(at *string, text []byte) {
	if len(text) == 0 {
		*at = "" // unsafe.String would keep the body alive
		return
	}
	*at = unsafe.String(unsafe.SliceData(text), len(text))
	t.refs = append(t.refs, reference{(*unsafe.Pointer)(unsafe.Pointer(at)), len(text)})
	t.size += len(text)
}

// SetBytes sets the slice at at to bytes of the body. It must be called at most once for each
// slice.
func (t *Text) SetBytes(at *[]byte, data []byte) {
	if len(data) == 0 {
		*at = []byte{}
		return
	}
	*at = data[:len(data):len(data)]
	t.refs = append(t.refs, reference{(*unsafe.Pointer)(unsafe.Pointer(at)), len(data)})
	t.size += len(data)
}

// Commit moves all text into its own memory.
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

// maxReusedRefs is the maximum number of references for which Text keeps memory between objects. A single
// huge object must not tie up memory for the hours that a watch lasts.
const maxReusedRefs = 1 << 14

// Discard drops all text. Call it if decoding fails.
func (t *Text) Discard() {
	if cap(t.refs) > maxReusedRefs {
		t.refs = nil
	}
	clear(t.refs)
	t.refs, t.size = t.refs[:0], 0
}

// String returns raw as a string without copying it. raw must not change afterwards.
func String(raw []byte) string { return unsafe.String(unsafe.SliceData(raw), len(raw)) }

// Bytes returns the bytes of s without copying them. They must not be written to.
func Bytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
