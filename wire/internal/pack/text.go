package pack

import (
	"errors"
	"fmt"
	"hash/crc32"
	"weak"

	"github.com/klauspost/compress/s2"

	"github.com/millrace-dev/millrace/wire/internal/memory"
)

// Text is compressed bytes with an uncompressed prefix. The zero Text is empty.
type Text struct {
	data string // prefix and bytes
	base *base  // the base it was compressed against, or the base that it is; may be nil
	size uint32 // of the uncompressed bytes
	head uint32 // of the prefix
	sum  uint32 // checksum of the prefix and the uncompressed bytes
	form form
}

type form uint8

const (
	plain  form = iota // the bytes are not compressed
	packed             // the bytes are compressed, against base if there is one
	isBase             // the text itself is base
)

// base is a text against which others are compressed. It has no prefix.
type base struct {
	Text
	samples uint32                   // 0 for a member of a group; otherwise the samples' number, starting at 1
	dict    weak.Pointer[dictionary] // the base, expanded; guarded by Compressor.mu
}

// ErrDamaged means that packed bytes cannot be restored.
var ErrDamaged = errors.New("packed bytes are damaged")

// Plain returns a text with only a prefix, which it copies.
func Plain(prefix []byte) Text { return plainText(prefix, nil) }

// Prefix returns the prefix.
func (t Text) Prefix() string { return t.data[:t.head] }

// Size returns the size of the uncompressed bytes.
func (t Text) Size() int { return int(t.size) }

// HeldBytes returns the number of bytes that t keeps in memory, not counting its base.
func (t Text) HeldBytes() int { return len(t.data) }

// castagnoli is the polynomial for which CPUs have an instruction. Verifying the checksum takes far less time
// than expanding the bytes.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumOf returns a text's checksum. S2 blocks do not have one, and without it, a flipped bit would usually
// yield a different object.
func sumOf(prefix, raw []byte) uint32 {
	return crc32.Update(crc32.Checksum(prefix, castagnoli), castagnoli, raw)
}

// Unpack appends t's bytes to dst, without the prefix. It fails with ErrDamaged if these bytes or the
// prefix are not the ones that were packed.
func (c *Compressor) Unpack(dst []byte, t Text) ([]byte, error) {
	start := len(dst)
	form, from := t.form, t.base
	if form == isBase {
		form, from = from.form, from.base
	}
	if form == plain {
		dst = append(dst, t.data[t.head:]...)
	} else {
		var err error
		if dst, err = c.expand(dst, from, t.data[t.head:], int(t.size)); err != nil {
			return dst, err
		}
	}
	if sum := sumOf(memory.Bytes(t.Prefix()), dst[start:]); sum != t.sum {
		return dst[:start], fmt.Errorf("%w: the checksum of %d bytes is %08x, not %08x", ErrDamaged, len(dst)-start, sum, t.sum)
	}
	return dst, nil
}

// expand expands data, against a base if it is not nil, and appends the result to dst.
func (c *Compressor) expand(dst []byte, against *base, data string, size int) ([]byte, error) {
	raw := memory.Bytes(data)
	if n, err := s2.DecodedLen(raw); err != nil || n != size {
		return dst, fmt.Errorf("%w: %d bytes claim to expand to %d bytes, want %d", ErrDamaged, len(data), n, size)
	}
	start := len(dst)
	dst = grow(dst, size)
	room := dst[start : start+size : start+size]
	var err error
	if against == nil {
		_, err = s2.Decode(room, raw)
	} else {
		dict, damaged := c.dictionary(against)
		if damaged != nil {
			return dst[:start], damaged
		}
		_, err = dict.Decode(room, raw)
	}
	if err != nil {
		return dst[:start], fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return dst[:start+size], nil
}

// grow returns dst with capacity for n more bytes.
func grow(dst []byte, n int) []byte {
	if cap(dst)-len(dst) >= n {
		return dst
	}
	return append(make([]byte, 0, len(dst)+n), dst...)
}

// dictionary is an expanded base. It is immutable.
type dictionary struct {
	*s2.Dict
	raw []byte
}
