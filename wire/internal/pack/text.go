package pack

import (
	"errors"
	"fmt"
	"hash/crc32"
	"weak"

	"github.com/klauspost/compress/s2"

	"github.com/millrace-dev/millrace/wire/internal/memory"
)

// Text is compressed bytes behind a prefix of the caller's that is kept as it
// is. The zero Text is empty.
type Text struct {
	data string // prefix and bytes
	base *base  // that it is compressed against, or that it is; nil for none
	size uint32 // of the bytes, when they are not compressed
	head uint32 // of the prefix
	sum  uint32 // of the prefix and of the bytes, when they are not compressed
	form form
}

type form uint8

const (
	plain  form = iota // the bytes are as they were
	packed             // they are compressed, against base if there is one
	isBase             // it is base itself
)

// base is a text that others are compressed against. It has no prefix.
type base struct {
	Text
	samples uint32                   // not 0 if it has samples, and is no member of a group: which ones since the first, from 1
	dict    weak.Pointer[dictionary] // the base, expanded; guarded by Compressor.mu
}

// ErrDamaged means that bytes which were packed cannot be had back.
var ErrDamaged = errors.New("packed bytes are damaged")

// Plain returns a text that is nothing but a prefix, which is copied.
func Plain(prefix []byte) Text { return plainText(prefix, nil) }

// Prefix returns the prefix.
func (t Text) Prefix() string { return t.data[:t.head] }

// Size is how many bytes there are, uncompressed.
func (t Text) Size() int { return int(t.size) }

// HeldBytes is how many bytes t keeps in memory, without those of its base.
func (t Text) HeldBytes() int { return len(t.data) }

// castagnoli is the polynomial for which processors have an instruction: to check the bytes
// takes far less time than to expand them.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumOf is the checksum of a text. S2 has none: without it, one flipped bit would as a rule
// be another object.
func sumOf(prefix, raw []byte) uint32 {
	return crc32.Update(crc32.Checksum(prefix, castagnoli), castagnoli, raw)
}

// Unpack appends the bytes of t to dst, without the prefix. It fails with ErrDamaged where
// they, or the prefix, are not what was packed.
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

// expand appends what data, compressed against a base, comes to.
func (c *Compressor) expand(dst []byte, against *base, data string, size int) ([]byte, error) {
	raw := memory.Bytes(data)
	if n, err := s2.DecodedLen(raw); err != nil || n != size {
		return dst, fmt.Errorf("%w: %d bytes say that they come to %d, not to %d", ErrDamaged, len(data), n, size)
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

// grow returns dst with room for n more bytes.
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
