package pack

import (
	"errors"
	"fmt"
	"weak"

	"github.com/klauspost/compress/s2"

	"github.com/millrace-dev/millrace/wire/internal/memory"
)

// Text is bytes as a shelf keeps them, behind a prefix of the caller's that is kept as it
// is. The zero Text is empty.
type Text struct {
	data string // prefix and bytes
	base *base  // that it is compressed against, or that it is; nil for none
	size uint32 // of the bytes, when they are not compressed
	head uint32 // of the prefix
	form form
}

type form uint8

const (
	plain   form = iota // the bytes are as they were
	packed              // they are compressed, against base if there is one
	founder             // it is base itself
)

// base is a text that others are compressed against. It has no prefix.
type base struct {
	Text
	ready weak.Pointer[dictionary] // plain and ready for use; guarded by Shelf.mu
}

// ErrDamaged means that bytes which were packed cannot be had back.
var ErrDamaged = errors.New("packed bytes are damaged")

// Prefix returns the prefix.
func (t Text) Prefix() string { return t.data[:t.head] }

// Size is how many bytes there are, uncompressed.
func (t Text) Size() int { return int(t.size) }

// Held is how many bytes t keeps in memory, without those of its base.
func (t Text) Held() int { return len(t.data) }

// Unpack appends the bytes of t to dst, without the prefix. It fails with ErrDamaged.
func (s *Shelf) Unpack(dst []byte, t Text) ([]byte, error) {
	if t.form == founder {
		t.base, t.form = t.base.base, t.base.form
	}
	if t.form == plain {
		return append(dst, t.data[t.head:]...), nil
	}
	return s.expand(dst, t.base, t.data[t.head:], int(t.size))
}

// expand appends what data, compressed against a base, comes to.
func (s *Shelf) expand(dst []byte, against *base, data string, size int) ([]byte, error) {
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
		dict, damaged := s.dictionary(against)
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

// dictionary is a base that is plain and ready for use. It is immutable.
type dictionary = s2.Dict
