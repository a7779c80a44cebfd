package frame

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/bits"

	"github.com/millrace-dev/millrace/wire/internal/fault"
)

// JSON finds the values in a JSON body without decoding them. It checks brackets, strings, size and
// depth. Everything else is checked while decoding.
type JSON struct {
	*Source
	MaxBytes int // at most 1 GB, so that a tape can hold every offset
	MaxDepth int

	// Part describes the source in messages, in which byte offsets are relative to its start. Empty means
	// "the body".
	Part string

	tape     Tape    // the current value's tape
	open     []int32 // the unfinished extents on the tape
	inString bool    // the scan is inside a string
}

func (s *JSON) Syntax(want string) error {
	return fmt.Errorf("%w: want %s at byte %d of %s", fault.ErrSyntax, want, s.Offset(), cmp.Or(s.Part, "the body"))
}

// Space consumes white space and returns the next byte without consuming it.
func (s *JSON) Space() (byte, error) {
	for {
		c, err := s.Peek()
		if err != nil {
			return 0, err
		}
		switch c {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return c, nil
		}
	}
}

// Expect consumes white space and then c.
func (s *JSON) Expect(c byte) error {
	got, err := s.Space()
	if err != nil {
		return fault.Truncated(err)
	}
	if got != c {
		return s.Syntax(fmt.Sprintf("%q", c))
	}
	s.pos++
	return nil
}

// More consumes the comma before the next element of an array or object, or else the closing bracket. first
// indicates that no element has been read yet.
func (s *JSON) More(closing byte, first bool) (bool, error) {
	c, err := s.Space()
	switch {
	case err != nil:
		return false, fault.Truncated(err)
	case c == closing:
		s.pos++
		return false, nil
	case first:
		return true, nil
	case c == ',':
		s.pos++
		return true, nil
	}
	return false, s.Syntax(fmt.Sprintf("',' or %q", closing))
}

// Key consumes a field name and the colon after it.
func (s *JSON) Key() (string, error) {
	c, err := s.Space()
	if err != nil {
		return "", fault.Truncated(err)
	}
	if c != '"' {
		return "", s.Syntax("a field name")
	}
	quoted, err := s.Value()
	if err != nil {
		return "", err
	}
	name, err := Unquote(quoted.Raw)
	if err != nil {
		return "", s.Syntax("a valid field name before this")
	}
	return name, s.Expect(':')
}

func Unquote(raw []byte) (string, error) {
	var v string
	err := json.Unmarshal(raw, &v)
	return v, err
}

// Value consumes the next value and returns it. The result is valid until the next call. Value
// fails with ErrTooLarge or ErrTooDeep before the whole value is in memory.
func (s *JSON) Value() (Item, error) {
	c, err := s.Space()
	if err != nil {
		return Item{}, fault.Truncated(err)
	}
	switch c {
	case '{', '[', '"':
	case ',', ':', '}', ']':
		return Item{}, s.Syntax("a value")
	default:
		raw, err := s.scalar()
		return Item{Raw: raw}, err
	}
	s.tape, s.open, s.inString = s.tape.Reset(), s.open[:0], false
	for n := 0; ; {
		seen := s.buf[s.pos:min(s.end, s.pos+s.MaxBytes+1)]
		var whole bool
		if n, whole, err = s.scan(seen, n); err != nil {
			return Item{}, err
		}
		if whole {
			raw, err := s.take(n)
			return Item{Raw: raw, Tape: s.tape}, err
		}
		if len(seen) > s.MaxBytes {
			return Item{}, fmt.Errorf("%w: more than %d bytes", fault.ErrTooLarge, s.MaxBytes)
		}
		if err := s.fill(); err != nil {
			return Item{}, fault.Truncated(err)
		}
	}
}

// scan continues scanning a value after its first n bytes. It returns the total number of bytes
// scanned, and whether the value is complete.
func (s *JSON) scan(value []byte, n int) (int, bool, error) {
	for n < len(value) {
		if s.inString {
			n = TextEnd(value, n)
			switch {
			case n == len(value):
				return n, false, nil
			case value[n] == '"':
				s.inString = false
				if n++; len(s.open) == 0 {
					return n, true, nil
				}
			case value[n] == '\\' && n+1 == len(value):
				return n, false, nil
			case value[n] == '\\' && value[n+1] >= ' ':
				n += 2
			default:
				// RFC 8259, section 7. Each watch frame ends with a newline, so a newline inside a
				// string means that this frame lacks a closing quote. Searching for the next quote would
				// swallow the events that follow.
				return n, false, fmt.Errorf("%w: a control character in a string at byte %d of %s", fault.ErrSyntax, s.Offset()+int64(n), cmp.Or(s.Part, "the body"))
			}
			continue
		}
		c := value[n]
		n++
		switch marks[c] {
		case markQuote:
			s.inString = true
		case markOpen:
			if len(s.open) == s.MaxDepth {
				return n, false, fmt.Errorf("%w: more than %d levels", fault.ErrTooDeep, s.MaxDepth)
			}
			s.open = append(s.open, int32(len(s.tape)))
			s.tape = append(s.tape, extent{})
		case markClose:
			last := len(s.open) - 1
			s.tape[s.open[last]] = extent{End: int32(n), Next: int32(len(s.tape))}
			if s.open = s.open[:last]; last == 0 {
				return n, true, nil
			}
		}
	}
	return n, false, nil
}

// mark processes a byte outside of strings.
type mark uint8

const (
	markQuote mark = iota + 1
	markOpen
	markClose
)

var marks = [256]mark{'"': markQuote, '{': markOpen, '[': markOpen, '}': markClose, ']': markClose}

func (s *JSON) take(n int) ([]byte, error) {
	if n > s.MaxBytes {
		return nil, fmt.Errorf("%w: %d bytes, more than %d", fault.ErrTooLarge, n, s.MaxBytes)
	}
	b := s.buf[s.pos : s.pos+n : s.pos+n]
	s.pos += n
	return b, nil
}

// scalar consumes a number, true, false or null.
func (s *JSON) scalar() ([]byte, error) {
	for n := 0; ; n++ {
		if n == s.end-s.pos {
			if n > s.MaxBytes {
				return nil, fmt.Errorf("%w: more than %d bytes", fault.ErrTooLarge, s.MaxBytes)
			}
			if err := s.fill(); err != nil {
				return nil, fault.Truncated(err)
			}
		}
		if EndsScalar[s.buf[s.pos+n]] {
			return s.take(n)
		}
	}
}

// NextFrame finds one frame: a metav1.WatchEvent.
func (s *JSON) NextFrame() (Item, error) {
	s.tape = s.tape.Reset() // the previous frame's tape was copied
	switch c, err := s.Space(); {
	case err != nil:
		return Item{}, err
	case c != '{':
		return Item{}, s.Syntax("'{'")
	}
	return s.Value()
}

// AtEnd returns an error if anything but white space is left.
func (s *JSON) AtEnd() error {
	switch _, err := s.Space(); err {
	case io.EOF:
		return nil
	case nil:
		return s.Syntax("nothing more")
	default:
		return err
	}
}

// Words made of eight equal bytes, used to compare eight bytes at once.
const (
	eachOne   = 0x0101010101010101
	eachTop   = 0x80 * eachOne
	eachSlash = '\\' * eachOne
)

// textStops returns a word that marks the first quote, backslash or control character among the
// eight bytes: in the result, that byte's high bit is set and no bit below it is. The word is zero if there
// is no such byte.
func textStops(word uint64) uint64 {
	// Swapping '"' with ' ', and '!' with '#', moves the quote next to the control characters, so
	// that all bytes below '!' are stops.
	swapped := word ^ 2*eachOne
	slash := word ^ eachSlash
	return ((swapped-'!'*eachOne)&^swapped | (slash-eachOne)&^slash) & eachTop
}

// TextEnd returns the index of the first quote, backslash or control character in b from n on, or
// len(b).
func TextEnd(b []byte, n int) int {
	for ; n+8 <= len(b); n += 8 {
		if stops := textStops(binary.LittleEndian.Uint64(b[n:])); stops != 0 {
			return n + bits.TrailingZeros64(stops)/8
		}
	}
	for n < len(b) && b[n] != '"' && b[n] != '\\' && b[n] >= ' ' {
		n++
	}
	return n
}

// EndsScalar contains the bytes that may follow a number, true, false or null without being part of
// it.
var EndsScalar = [256]bool{' ': true, '\t': true, '\r': true, '\n': true, ',': true, ':': true, ']': true, '}': true, '[': true, '{': true, '"': true}
