package frame

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/millrace-dev/millrace/wire/internal/fault"
)

// CBOR's major types (RFC 8949, section 3.1).
const (
	CBORUint byte = iota
	CBORNegative
	CBORBytes
	CBORText
	CBORArray
	CBORMap
	CBORTag
	CBORSimple
)

const (
	CBORSelfDescribed = 55799 // a tag that only marks the data as CBOR
	CBORNull          = 22    // a simple value
	CBORBreak         = 0xff  // ends an indefinite-length item
)

// CBORHead is the head of a data item: its major type and its argument, which may be a number, a length, a
// count or a tag.
type CBORHead struct {
	Major      byte
	Value      uint64
	Indefinite bool // a break ends the item, or this is the break
	Size       int  // the head's size in bytes
}

func (h CBORHead) isBreak() bool { return h.Major == CBORSimple && h.Indefinite }
func (h CBORHead) IsNull() bool  { return h.Major == CBORSimple && h.Size == 1 && h.Value == CBORNull }

// ReadCBORHead reads the head at the start of b. It returns false if b ends before the head does.
func ReadCBORHead(b []byte) (h CBORHead, ok bool, err error) {
	if len(b) == 0 {
		return h, false, nil
	}
	info := b[0] & 0x1f
	h = CBORHead{Major: b[0] >> 5, Value: uint64(info), Size: 1}
	switch {
	case info < 24:
		return h, true, nil
	case info == 31 && h.Major >= CBORBytes && h.Major != CBORTag:
		h.Indefinite = true
		return h, true, nil
	case info > 27:
		return h, false, fmt.Errorf("%w: a data item begins with %#x", fault.ErrSyntax, b[0])
	}
	width := 1 << (info - 24)
	if h.Size += width; len(b) < h.Size {
		return h, false, nil
	}
	var argument [8]byte
	copy(argument[8-width:], b[1:h.Size])
	h.Value = binary.BigEndian.Uint64(argument[:])
	return h, true, nil
}

// CBOR finds the data items in a CBOR body without decoding them. It checks sizes, depth, and
// whatever else determines where an item ends. The rest is checked while decoding.
type CBOR struct {
	*Source
	MaxBytes   int
	MaxDepth   int
	open       []uint64 // for each unfinished item, the number of items still missing in it
	indefinite int      // how many of these end with a break
}

// untilBreak is the count for an item that ends with a break.
const untilBreak = ^uint64(0)

// MaxIndefinite is the maximum nesting depth of indefinite-length items. The codec counts each item's
// elements before reading them, so it scans the innermost item once per level. API servers never write such
// items.
const MaxIndefinite = 32

func (s *CBOR) Syntax(want string) error {
	return fmt.Errorf("%w: want %s at byte %d of the body", fault.ErrSyntax, want, s.Offset())
}

// Head consumes the head of a data item.
func (s *CBOR) Head() (CBORHead, error) {
	for {
		h, ok, err := ReadCBORHead(s.buf[s.pos:s.end])
		if err != nil {
			return h, err
		}
		if ok {
			s.pos += h.Size
			return h, nil
		}
		if err := s.fill(); err != nil {
			return h, fault.Truncated(err)
		}
	}
}

// Value consumes a data item and returns it. The result is valid until the next call. Value fails
// with ErrTooLarge or ErrTooDeep before the whole item is in memory.
func (s *CBOR) Value() ([]byte, error) {
	s.open, s.indefinite = s.open[:0], 0
	for n := 0; ; {
		seen := s.buf[s.pos:s.end]
		var whole bool
		var err error
		if n, whole, err = s.scan(seen, n); err != nil {
			return nil, err
		}
		switch {
		case n > s.MaxBytes || !whole && len(seen) > s.MaxBytes:
			return nil, fmt.Errorf("%w: more than %d bytes", fault.ErrTooLarge, s.MaxBytes)
		case whole && n <= len(seen):
			return s.Next(n)
		case whole:
			raw, err := s.Next(n)
			return raw, fault.Truncated(err)
		}
		if err := s.fill(); err != nil {
			return nil, fault.Truncated(err)
		}
	}
}

// More reports whether the array or map with head h has more elements or pairs than the n already
// consumed. It consumes the break that may end the item.
func (s *CBOR) More(h CBORHead, n uint64) (bool, error) {
	if !h.Indefinite {
		return n < h.Value, nil
	}
	c, err := s.Peek()
	if err != nil || c != CBORBreak {
		return true, fault.Truncated(err)
	}
	s.pos++
	return false, nil
}

// AtEnd returns an error if any bytes are left.
func (s *CBOR) AtEnd() error {
	switch _, err := s.Peek(); err {
	case io.EOF:
		return nil
	case nil:
		return s.Syntax("nothing more")
	default:
		return err
	}
}

// scan continues scanning a data item after its first n bytes; the source may have buffered more.
// It returns the total number of bytes scanned, and whether the item is complete.
func (s *CBOR) scan(seen []byte, n int) (int, bool, error) {
	for n < len(seen) {
		h, ok, err := ReadCBORHead(seen[n:])
		if err != nil || !ok {
			return n, false, err
		}
		n += h.Size
		switch {
		case h.isBreak():
			if len(s.open) == 0 || s.open[len(s.open)-1] != untilBreak {
				return n, false, fmt.Errorf("%w: a break outside an item of indefinite length", fault.ErrSyntax)
			}
			s.indefinite--
			s.open = s.open[:len(s.open)-1]
		case h.Indefinite:
			if s.indefinite++; s.indefinite > MaxIndefinite {
				return n, false, fmt.Errorf("%w: more than %d levels of indefinite length", fault.ErrTooDeep, MaxIndefinite)
			}
			err = s.begin(untilBreak)
		case h.Value > uint64(s.MaxBytes) && h.Major >= CBORBytes && h.Major <= CBORMap:
			return n, false, fmt.Errorf("%w: more than %d bytes", fault.ErrTooLarge, s.MaxBytes)
		case h.Major == CBORBytes || h.Major == CBORText:
			n += int(h.Value)
		case h.Major == CBORArray:
			err = s.begin(h.Value)
		case h.Major == CBORMap:
			err = s.begin(2 * h.Value)
		case h.Major == CBORTag:
			err = s.begin(1)
		}
		if err != nil {
			return n, false, err
		}
		if s.itemEnded() {
			return n, true, nil
		}
	}
	return n, false, nil
}

// begin enters a data item that contains count items.
func (s *CBOR) begin(items uint64) error {
	if len(s.open) == s.MaxDepth {
		return fmt.Errorf("%w: more than %d levels", fault.ErrTooDeep, s.MaxDepth)
	}
	if items != untilBreak {
		items++ // the head itself, which itemEnded counts
	}
	s.open = append(s.open, items)
	return nil
}

// itemEnded counts a head, or the end of an item, and reports whether the outermost item is
// complete.
func (s *CBOR) itemEnded() bool {
	for len(s.open) > 0 {
		last := &s.open[len(s.open)-1]
		if *last == untilBreak {
			return false
		}
		if *last--; *last > 0 {
			return false
		}
		s.open = s.open[:len(s.open)-1]
	}
	return true
}

// NextFrame finds one frame: a data item in a sequence (RFC 8742).
func (s *CBOR) NextFrame() (Item, error) {
	if _, err := s.Peek(); err != nil {
		return Item{}, err
	}
	raw, err := s.Value()
	return Item{Raw: raw}, err
}
