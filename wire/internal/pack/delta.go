package pack

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// appendDelta appends src, compressed as a block of S2 whose dictionary is a sibling. It walks both in
// step. Where they differ it first looks a little ahead in step, since a value is usually replaced by
// another one of its length. Then it looks for anything that they have in common, near the place at
// which they began to differ.
//
// S2's own encoder looks for every place of src in a table of all of the dictionary, and in
// one of src. Siblings have so much in common that it takes most of its time to make the tables.
//
// The block is the length of src, and then literals and copies in turn. The format is that of
// Snappy (https://github.com/google/snappy/blob/main/format_description.txt), with the extensions
// of S2 (https://github.com/klauspost/compress/tree/master/s2#format-extensions): a copy of one
// byte of offset that says 0 has the offset of the copy before, and more room for its length;
// and of what lies before src, the end is the dictionary's, to whose beginning the first such
// offset leads.
//
// Nothing is copied but of the sibling. It and src have to fit together: see canDelta. A block
// has a byte of every 256 more than src at most.
func appendDelta(dst, sibling, src []byte) []byte {
	d := deltaEncoder{dst: binary.AppendUvarint(dst, uint64(len(src))), sibling: sibling, src: src, offset: len(sibling)}
	for s, c, ok := 0, 0, true; ok; s, c, ok = d.nextMatch(s, c) {
		if n := commonPrefix(src[s:], sibling[c:]); n >= minAligned {
			d.writeCopy(s, c, n)
			s, c = s+n, c+n
		}
	}
	d.writeLiteral(len(src))
	return d.dst
}

// canDelta reports whether appendDelta takes texts of these sizes: if so, all offsets, and all
// lengths, have two bytes.
func canDelta(sibling, src int) bool { return sibling+src <= math.MaxUint16 }

const (
	// minAligned is how many bytes are worth a copy with the offset of the one before: that
	// takes two, and a literal behind it begins with one more.
	minAligned = 4

	// minMatch is how many bytes are worth a copy with another offset, and how many are looked
	// for at once.
	minMatch = 8

	// maxSkip is how far to look ahead in step: further than a UID is long.
	maxSkip = 64

	// window is how many bytes of the sibling are searched before and behind the place where both begin
	// to differ. If nothing is found for so many bytes of src, more of it is.
	window = 256

	// stride is how far apart the places of a sibling are that can be found. So what is found
	// for certain has minMatch+stride-1 bytes.
	stride = 4

	tableBits = 10
)

// deltaEncoder walks over two texts.
type deltaEncoder struct {
	dst          []byte
	sibling, src []byte
	written      int // how much of src is in dst
	offset       int // of the last copy

	table   [1 << tableBits]uint16 // places of the sibling plus one, by the hash of the bytes there
	indexed int                    // the table has the places of the sibling before this one
}

// nextMatch finds where src and the sibling are the same again, after they parted at s and c.
func (d *deltaEncoder) nextMatch(s, c int) (int, int, bool) {
	src, sibling := d.src[s:], d.sibling[c:]
	for n := 1; n <= maxSkip && n+minAligned <= len(src) && n+minAligned <= len(sibling); {
		differ := binary.LittleEndian.Uint32(src[n:]) ^ binary.LittleEndian.Uint32(sibling[n:])
		if differ == 0 {
			return s + n, c + n, true
		}
		n += (bits.Len32(differ) + 7) / 8 // behind the last byte that differs
	}
	d.indexed = max(d.indexed, c-window)
	for n := 0; n+minMatch <= len(src); n += 1 + n/32 { // ever more seldom: it may be that nothing is the same
		d.index(c + n + window)
		next := binary.LittleEndian.Uint64(src[n:])
		if at := int(d.table[hashOf(next)]) - 1; at >= 0 && binary.LittleEndian.Uint64(d.sibling[at:]) == next {
			return d.extendBack(s+n, at)
		}
	}
	return 0, 0, false
}

// index adds the places of the sibling before to to the table.
func (d *deltaEncoder) index(to int) {
	to = min(to, len(d.sibling)-minMatch+1)
	for ; d.indexed < to; d.indexed += stride {
		d.table[hashOf(binary.LittleEndian.Uint64(d.sibling[d.indexed:]))] = uint16(d.indexed + 1)
	}
}

func hashOf(eight uint64) uint64 { return eight * 0x9e3779b97f4a7c15 >> (64 - tableBits) }

// extendBack goes back from where both are the same to where that begins.
func (d *deltaEncoder) extendBack(s, c int) (int, int, bool) {
	for s > d.written && c > 0 && d.src[s-1] == d.sibling[c-1] {
		s, c = s-1, c-1
	}
	return s, c, true
}

// The kinds of elements, by the lowest bits of their first byte, which of a literal are 0.
const (
	tagCopy1 = 1
	tagCopy2 = 2
)

// writeLiteral writes src as it is, up to a place.
func (d *deltaEncoder) writeLiteral(to int) {
	text := d.src[d.written:to]
	d.written = to
	switch n := len(text) - 1; {
	case n < 0:
	case n < 60:
		d.dst = append(d.dst, byte(n)<<2)
	case n < 1<<8:
		d.dst = append(d.dst, 60<<2, byte(n))
	default:
		d.dst = append(d.dst, 61<<2, byte(n), byte(n>>8))
	}
	d.dst = append(d.dst, text...)
}

// writeCopy writes that src has at s what the sibling has at c, for n bytes.
func (d *deltaEncoder) writeCopy(s, c, n int) {
	d.writeLiteral(s)
	d.written = s + n
	if offset := s + len(d.sibling) - c; offset != d.offset {
		d.offset = offset
		first := n
		if n > 64 {
			first = 60 // so that enough is left for another one
		}
		d.dst = append(d.dst, byte(first-1)<<2|tagCopy2, byte(offset), byte(offset>>8))
		if n -= first; n == 0 {
			return
		}
	}
	switch n -= 4; {
	case n < 5:
		d.dst = append(d.dst, byte(n)<<2|tagCopy1, 0)
	case n < 4+1<<8:
		d.dst = append(d.dst, 5<<2|tagCopy1, 0, byte(n-4))
	default:
		n -= 1 << 8
		d.dst = append(d.dst, 6<<2|tagCopy1, 0, byte(n), byte(n>>8))
	}
}

// commonPrefix is how many bytes two texts have in common at the beginning.
func commonPrefix(a, b []byte) (n int) {
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
