package wire

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/millrace-dev/millrace/wire/internal/fault"
)

// The major types of CBOR (RFC 8949, section 3.1).
const (
	cborUint byte = iota
	cborNegative
	cborBytes
	cborText
	cborArray
	cborMap
	cborTag
	cborSimple
)

const (
	cborSelfDescribed = 55799 // a tag that says nothing but that this is CBOR
	cborNull          = 22    // among the simple values
	cborBreak         = 0xff  // ends what is of indefinite length
)

// cborHead is the head of a data item: its major type and its argument, which is a
// number, a length, a count or a tag.
type cborHead struct {
	major      byte
	value      uint64
	indefinite bool // a break ends the item; or this is the break
	size       int  // of the head, in bytes
}

func (h cborHead) isBreak() bool { return h.major == cborSimple && h.indefinite }
func (h cborHead) isNull() bool  { return h.major == cborSimple && h.size == 1 && h.value == cborNull }

// readCBORHead reads the head at the beginning of b. ok is false if b ends within
// it.
func readCBORHead(b []byte) (h cborHead, ok bool, err error) {
	if len(b) == 0 {
		return h, false, nil
	}
	info := b[0] & 0x1f
	h = cborHead{major: b[0] >> 5, value: uint64(info), size: 1}
	switch {
	case info < 24:
		return h, true, nil
	case info == 31 && h.major >= cborBytes && h.major != cborTag:
		h.indefinite = true
		return h, true, nil
	case info > 27:
		return h, false, fmt.Errorf("%w: a data item begins with %#x", fault.ErrSyntax, b[0])
	}
	width := 1 << (info - 24)
	if h.size += width; len(b) < h.size {
		return h, false, nil
	}
	var argument [8]byte
	copy(argument[8-width:], b[1:h.size])
	h.value = binary.BigEndian.Uint64(argument[:])
	return h, true, nil
}

// cborScanner finds the data items in a CBOR body without decoding them. It checks
// size, depth, and what is needed to find the end of an item. Decoding checks the
// rest.
type cborScanner struct {
	*source
	maxBytes int
	maxDepth int
	open     []uint64 // the items that are still to come, for each that has not ended
	endless  int      // how many of these end with a break
}

// untilBreak stands for the number of items that a break ends.
const untilBreak = ^uint64(0)

// maxEndless is how deeply items of indefinite length may nest. The codec counts
// the elements of each item before it reads them, so it reads the innermost once
// for each level. API servers write no such items.
const maxEndless = 32

func (s *cborScanner) syntax(want string) error {
	return fmt.Errorf("%w: want %s at byte %d of the body", fault.ErrSyntax, want, s.offset())
}

// head consumes the head of a data item.
func (s *cborScanner) head() (cborHead, error) {
	for {
		h, ok, err := readCBORHead(s.buf[s.pos:s.end])
		if err != nil {
			return h, err
		}
		if ok {
			s.pos += h.size
			return h, nil
		}
		if err := s.fill(); err != nil {
			return h, fault.Truncated(err)
		}
	}
}

// value consumes a data item and returns it. The result is valid until the next
// call. value fails with ErrTooLarge or ErrTooDeep before the whole item is in
// memory.
func (s *cborScanner) value() ([]byte, error) {
	s.open, s.endless = s.open[:0], 0
	for n := 0; ; {
		seen := s.buf[s.pos:s.end]
		var whole bool
		var err error
		if n, whole, err = s.scan(seen, n); err != nil {
			return nil, err
		}
		switch {
		case n > s.maxBytes || !whole && len(seen) > s.maxBytes:
			return nil, fmt.Errorf("%w: more than %d bytes", fault.ErrTooLarge, s.maxBytes)
		case whole && n <= len(seen):
			return s.next(n)
		case whole:
			raw, err := s.next(n)
			return raw, fault.Truncated(err)
		}
		if err := s.fill(); err != nil {
			return nil, fault.Truncated(err)
		}
	}
}

// more reports whether there is more in the array or map with this head, of which
// n elements or pairs were consumed. It consumes the break that may end it.
func (s *cborScanner) more(h cborHead, n uint64) (bool, error) {
	if !h.indefinite {
		return n < h.value, nil
	}
	c, err := s.peek()
	if err != nil || c != cborBreak {
		return true, fault.Truncated(err)
	}
	s.pos++
	return false, nil
}

// atEnd fails if anything follows.
func (s *cborScanner) atEnd() error {
	switch _, err := s.peek(); err {
	case io.EOF:
		return nil
	case nil:
		return s.syntax("nothing more")
	default:
		return err
	}
}

// scan continues with a data item after its first n bytes, which may be more than
// have been seen. It returns how many bytes are done now, and whether the item is
// complete.
func (s *cborScanner) scan(seen []byte, n int) (int, bool, error) {
	for n < len(seen) {
		h, ok, err := readCBORHead(seen[n:])
		if err != nil || !ok {
			return n, false, err
		}
		n += h.size
		switch {
		case h.isBreak():
			if len(s.open) == 0 || s.open[len(s.open)-1] != untilBreak {
				return n, false, fmt.Errorf("%w: a break where nothing ends", fault.ErrSyntax)
			}
			s.endless--
			s.open = s.open[:len(s.open)-1]
		case h.indefinite:
			if s.endless++; s.endless > maxEndless {
				return n, false, fmt.Errorf("%w: more than %d levels of indefinite length", fault.ErrTooDeep, maxEndless)
			}
			err = s.begin(untilBreak)
		case h.value > uint64(s.maxBytes) && h.major >= cborBytes && h.major <= cborMap:
			return n, false, fmt.Errorf("%w: more than %d bytes", fault.ErrTooLarge, s.maxBytes)
		case h.major == cborBytes || h.major == cborText:
			n += int(h.value)
		case h.major == cborArray:
			err = s.begin(h.value)
		case h.major == cborMap:
			err = s.begin(2 * h.value)
		case h.major == cborTag:
			err = s.begin(1)
		}
		if err != nil {
			return n, false, err
		}
		if s.ended() {
			return n, true, nil
		}
	}
	return n, false, nil
}

// begin steps into a data item that so many others belong to.
func (s *cborScanner) begin(items uint64) error {
	if len(s.open) == s.maxDepth {
		return fmt.Errorf("%w: more than %d levels", fault.ErrTooDeep, s.maxDepth)
	}
	if items != untilBreak {
		items++ // the head itself, which ended counts
	}
	s.open = append(s.open, items)
	return nil
}

// ended counts a head, or the end of an item, and reports whether the whole is
// over.
func (s *cborScanner) ended() bool {
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
