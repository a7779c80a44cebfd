package pack

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// beside appends src, as a block of S2 whose dictionary is a sibling. It lays the one beside
// the other and walks both in step. Where they part it looks a little ahead in step, since as a
// rule a value has another one of its length in its place. Then it looks for anything that they
// have in common, near the place at which they parted first.
//
// S2's own encoder looks for every place of src in a table of all of the dictionary, and in
// one of src. Siblings have so much in common that it takes most of its time to make the tables.
//
// The block is the length of src, and then literals and copies in turn. The format is that of
// Snappy (https://github.com/google/snappy/blob/main/format_description.txt), with what S2 adds
// to it (https://github.com/klauspost/compress/tree/master/s2#format-extensions): a copy of one
// byte of offset that says 0 has the offset of the copy before, and more room for its length;
// and of what lies before src, the end is the dictionary's, to whose beginning the first such
// offset leads.
//
// Nothing is copied but of the sibling. It and src have to fit together: see fitBeside. A block
// has a byte of every 256 more than src at most.
func beside(dst, sibling, src []byte) []byte {
	w := walk{dst: binary.AppendUvarint(dst, uint64(len(src))), sibling: sibling, src: src, offset: len(sibling)}
	for s, c, ok := 0, 0, true; ok; s, c, ok = w.next(s, c) {
		if n := common(src[s:], sibling[c:]); n >= leastInStep {
			w.copy(s, c, n)
			s, c = s+n, c+n
		}
	}
	w.literal(len(src))
	return w.dst
}

// fitBeside reports whether texts of these sizes may lie side by side: then all offsets, and all
// lengths, have two bytes.
func fitBeside(sibling, src int) bool { return sibling+src <= math.MaxUint16 }

const (
	// leastInStep is how many bytes are worth a copy with the offset of the one before: that
	// takes two, and a literal behind it begins with one more.
	leastInStep = 4

	// leastFound is how many bytes are worth a copy with another offset, and how many are looked
	// for at once.
	leastFound = 8

	// inStep is how far to look ahead in step: further than a UID is long.
	inStep = 64

	// around is how far about the place where both part the sibling is looked through. Where
	// nothing is found for so many bytes of src, more of it is.
	around = 256

	// stride is how far apart the places of a sibling are that can be found. So what is found
	// for certain has leastFound+stride-1 bytes.
	stride = 4

	placesBits = 10
)

// walk is a walk over two texts.
type walk struct {
	dst          []byte
	sibling, src []byte
	written      int // how much of src is in dst
	offset       int // of the last copy

	places [1 << placesBits]uint16 // of the sibling, by the hash of what is there, plus one
	known  int                     // from where on its places are not known
}

// next finds where src and the sibling are the same again, after they parted at s and c.
func (w *walk) next(s, c int) (int, int, bool) {
	src, sibling := w.src[s:], w.sibling[c:]
	for n := 1; n <= inStep && n+leastInStep <= len(src) && n+leastInStep <= len(sibling); {
		differ := binary.LittleEndian.Uint32(src[n:]) ^ binary.LittleEndian.Uint32(sibling[n:])
		if differ == 0 {
			return s + n, c + n, true
		}
		n += (bits.Len32(differ) + 7) / 8 // behind the last byte that differs
	}
	w.known = max(w.known, c-around)
	for n := 0; n+leastFound <= len(src); n += 1 + n/32 { // ever more seldom: it may be that nothing is the same
		w.know(c + n + around)
		next := binary.LittleEndian.Uint64(src[n:])
		if at := int(w.places[hashOf(next)]) - 1; at >= 0 && binary.LittleEndian.Uint64(w.sibling[at:]) == next {
			return w.back(s+n, at)
		}
	}
	return 0, 0, false
}

// know makes the places of the sibling known up to one.
func (w *walk) know(to int) {
	to = min(to, len(w.sibling)-leastFound+1)
	for ; w.known < to; w.known += stride {
		w.places[hashOf(binary.LittleEndian.Uint64(w.sibling[w.known:]))] = uint16(w.known + 1)
	}
}

func hashOf(eight uint64) uint64 { return eight * 0x9e3779b97f4a7c15 >> (64 - placesBits) }

// back goes back from where both are the same to where that begins.
func (w *walk) back(s, c int) (int, int, bool) {
	for s > w.written && c > 0 && w.src[s-1] == w.sibling[c-1] {
		s, c = s-1, c-1
	}
	return s, c, true
}

// The kinds of elements, by the lowest bits of their first byte, which of a literal are 0.
const (
	tagCopy1 = 1
	tagCopy2 = 2
)

// literal writes src as it is, up to a place.
func (w *walk) literal(to int) {
	text := w.src[w.written:to]
	w.written = to
	switch n := len(text) - 1; {
	case n < 0:
	case n < 60:
		w.dst = append(w.dst, byte(n)<<2)
	case n < 1<<8:
		w.dst = append(w.dst, 60<<2, byte(n))
	default:
		w.dst = append(w.dst, 61<<2, byte(n), byte(n>>8))
	}
	w.dst = append(w.dst, text...)
}

// copy writes that src has at s what the sibling has at c, for n bytes.
func (w *walk) copy(s, c, n int) {
	w.literal(s)
	w.written = s + n
	if offset := s + len(w.sibling) - c; offset != w.offset {
		w.offset = offset
		first := n
		if n > 64 {
			first = 60 // so that enough is left for another one
		}
		w.dst = append(w.dst, byte(first-1)<<2|tagCopy2, byte(offset), byte(offset>>8))
		if n -= first; n == 0 {
			return
		}
	}
	switch n -= 4; {
	case n < 5:
		w.dst = append(w.dst, byte(n)<<2|tagCopy1, 0)
	case n < 4+1<<8:
		w.dst = append(w.dst, 5<<2|tagCopy1, 0, byte(n-4))
	default:
		n -= 1 << 8
		w.dst = append(w.dst, 6<<2|tagCopy1, 0, byte(n), byte(n>>8))
	}
}

// common is how many bytes two texts have in common at the beginning.
func common(a, b []byte) (n int) {
	b = b[:min(len(a), len(b))]
	a = a[:len(b)]
	for ; n+8 <= len(a); n += 8 {
		if differ := binary.LittleEndian.Uint64(a[n:]) ^ binary.LittleEndian.Uint64(b[n:]); differ != 0 {
			return n + bits.TrailingZeros64(differ)/8
		}
	}
	for n < len(a) && a[n] == b[n] {
		n++
	}
	return n
}
