package pack

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// appendDelta appends src, compressed as an S2 block with a sibling as the dictionary. It walks both in
// parallel. Where they differ, it first looks ahead a little in both, because a value is usually replaced
// with another of the same length. Then it searches the sibling for equal bytes near the position where
// they started to differ.
//
// S2's own encoder looks up every position of src in two tables, one for the whole dictionary and one for
// src. With siblings, which are very similar, it would spend most of its time building the tables.
//
// The block starts with the length of src, followed by literals and copies. The format is Snappy's
// (https://github.com/google/snappy/blob/main/format_description.txt), with S2's extensions
// (https://github.com/klauspost/compress/tree/master/s2#format-extensions). A copy with a one-byte offset of
// 0 repeats the previous copy's offset, and can encode a greater length. The dictionary precedes src, and the
// initial repeat offset points to its start.
//
// All copies are taken from the sibling. The sizes of the sibling and src are limited; see
// canDelta. A block is longer than src by at most one byte in 256.
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

// canDelta reports whether appendDelta accepts texts of these sizes, in which case all offsets and lengths
// fit in two bytes.
func canDelta(sibling, src int) bool { return sibling+src <= math.MaxUint16 }

const (
	// minAligned is the minimum length of a match for which a copy with the previous offset pays
	// off: the copy takes two bytes, and a literal after it takes one more.
	minAligned = 4

	// minMatch is the minimum length of a match for which a copy with a different offset pays off. It is
	// also the number of bytes compared at once.
	minMatch = 8

	// maxSkip is the maximum number of bytes to look ahead in both texts, which is longer than a
	// UID.
	maxSkip = 64

	// window is the number of bytes searched in the sibling on each side of the position at which the texts
	// start to differ. The search widens until something is found.
	window = 256

	// stride is the distance between the positions indexed in a sibling. A match of
	// minMatch+stride-1 bytes is always found.
	stride = 4

	tableBits = 10
)

// deltaEncoder walks over a text and its sibling.
type deltaEncoder struct {
	dst          []byte
	sibling, src []byte
	written      int // number of bytes of src already in dst
	offset       int // offset of the previous copy

	table   [1 << tableBits]uint16 // positions in the sibling plus one, indexed by the hash of the bytes there
	indexed int                    // positions in the sibling below this one are in the table
}

// nextMatch finds the next position where src and the sibling are equal, after they differ at s and
// c.
func (d *deltaEncoder) nextMatch(s, c int) (int, int, bool) {
	src, sibling := d.src[s:], d.sibling[c:]
	for n := 1; n <= maxSkip && n+minAligned <= len(src) && n+minAligned <= len(sibling); {
		differ := binary.LittleEndian.Uint32(src[n:]) ^ binary.LittleEndian.Uint32(sibling[n:])
		if differ == 0 {
			return s + n, c + n, true
		}
		n += (bits.Len32(differ) + 7) / 8 // continue after the last byte that differs
	}
	d.indexed = max(d.indexed, c-window)
	for n := 0; n+minMatch <= len(src); n += 1 + n/32 { // in growing steps, because there may be no match at all
		d.index(c + n + window)
		next := binary.LittleEndian.Uint64(src[n:])
		if at := int(d.table[hashOf(next)]) - 1; at >= 0 && binary.LittleEndian.Uint64(d.sibling[at:]) == next {
			return d.extendBack(s+n, at)
		}
	}
	return 0, 0, false
}

// index adds the sibling's positions below to to the table.
func (d *deltaEncoder) index(to int) {
	to = min(to, len(d.sibling)-minMatch+1)
	for ; d.indexed < to; d.indexed += stride {
		d.table[hashOf(binary.LittleEndian.Uint64(d.sibling[d.indexed:]))] = uint16(d.indexed + 1)
	}
}

func hashOf(eight uint64) uint64 { return eight * 0x9e3779b97f4a7c15 >> (64 - tableBits) }

// extendBack moves back from equal positions to the start of the match.
func (d *deltaEncoder) extendBack(s, c int) (int, int, bool) {
	for s > d.written && c > 0 && d.src[s-1] == d.sibling[c-1] {
		s, c = s-1, c-1
	}
	return s, c, true
}

// Element types, in the lowest bits of an element's first byte. A literal has type 0.
const (
	tagCopy1 = 1
	tagCopy2 = 2
)

// writeLiteral writes src up to a position as is.
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

// writeCopy writes a copy of the sibling's n bytes at c, which equal those of src at s.
func (d *deltaEncoder) writeCopy(s, c, n int) {
	d.writeLiteral(s)
	d.written = s + n
	if offset := s + len(d.sibling) - c; offset != d.offset {
		d.offset = offset
		first := n
		if n > 64 {
			first = 60 // leaves enough bytes for another copy
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

// commonPrefix returns the length of the common prefix of a and b.
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
