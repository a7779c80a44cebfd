package memory

import "unsafe"

// Text is the strings and byte slices of an object that is being decoded. At first
// they point into the body. Settle moves them into one piece of memory of their
// exact size, so an object keeps nothing of the body alive and costs one allocation
// for all its text.
type Text struct {
	ends []looseEnd
	size int
}

// looseEnd is where a pointer to n bytes of the body is kept: the first word of
// a string or of a slice.
type looseEnd struct {
	at *unsafe.Pointer
	n  int
}

// Hang makes the string at at those bytes of the body. A place is used once.
func (l *Text) Hang(at *string, text []byte) {
	if len(text) == 0 {
		*at = "" // unsafe.String would hold on to the body
		return
	}
	*at = unsafe.String(unsafe.SliceData(text), len(text))
	l.ends = append(l.ends, looseEnd{(*unsafe.Pointer)(unsafe.Pointer(at)), len(text)})
	l.size += len(text)
}

// HangBytes makes the slice at at those bytes of the body. A place is used once.
func (l *Text) HangBytes(at *[]byte, data []byte) {
	if len(data) == 0 {
		*at = []byte{}
		return
	}
	*at = data[:len(data):len(data)]
	l.ends = append(l.ends, looseEnd{(*unsafe.Pointer)(unsafe.Pointer(at)), len(data)})
	l.size += len(data)
}

// Settle moves all text into memory of its own.
func (l *Text) Settle() {
	if l.size == 0 {
		return
	}
	text := make([]byte, 0, l.size)
	for i := range l.ends {
		end := &l.ends[i]
		start := len(text)
		text = append(text, unsafe.Slice((*byte)(*end.at), end.n)...)
		*end.at = unsafe.Pointer(&text[start])
	}
	l.Drop()
}

// idleEnds is how many ends are kept room for between objects: one huge object
// must not stay in memory for the hours that a watch lasts.
const idleEnds = 1 << 14

// Drop forgets the text, of an object that is given up for example.
func (l *Text) Drop() {
	if cap(l.ends) > idleEnds {
		l.ends = nil
	}
	clear(l.ends)
	l.ends, l.size = l.ends[:0], 0
}

// String makes a string of bytes that last.
func String(raw []byte) string { return unsafe.String(unsafe.SliceData(raw), len(raw)) }

// Bytes returns the bytes of a string, which must not be written to.
func Bytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
