package wire

import (
	"encoding/json"
	"fmt"

	"github.com/millrace-dev/millrace/wire/internal/fault"
)

// scanner finds the values in a JSON body without decoding them. It checks
// brackets, strings, size and depth. Decoding checks the rest.
type scanner struct {
	*source
	maxBytes int // at most 1 GB, so that a tape can hold every offset
	maxDepth int

	tape     tape    // of the value at hand
	open     []int32 // the extents on the tape that have not ended yet
	inString bool    // where the scan stands
}

func (s *scanner) syntax(want string) error {
	return fmt.Errorf("%w: want %s at byte %d of the body", fault.ErrSyntax, want, s.offset())
}

// space consumes white space and returns the byte after it, unconsumed.
func (s *scanner) space() (byte, error) {
	for {
		c, err := s.peek()
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

// expect consumes white space and then c.
func (s *scanner) expect(c byte) error {
	got, err := s.space()
	if err != nil {
		return fault.Truncated(err)
	}
	if got != c {
		return s.syntax(fmt.Sprintf("%q", c))
	}
	s.pos++
	return nil
}

// more consumes the comma before the next element of an array or object, or
// its closing bracket. first says that no element was read yet.
func (s *scanner) more(closing byte, first bool) (bool, error) {
	c, err := s.space()
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
	return false, s.syntax(fmt.Sprintf("',' or %q", closing))
}

// key consumes a field name and the colon after it.
func (s *scanner) key() (string, error) {
	c, err := s.space()
	if err != nil {
		return "", fault.Truncated(err)
	}
	if c != '"' {
		return "", s.syntax("a field name")
	}
	quoted, err := s.value()
	if err != nil {
		return "", err
	}
	name, err := unquote(quoted.raw)
	if err != nil {
		return "", s.syntax("a valid field name before this")
	}
	return name, s.expect(':')
}

func unquote(raw []byte) (string, error) {
	var v string
	err := json.Unmarshal(raw, &v)
	return v, err
}

// value consumes the next value and returns it. The result is valid until the next
// call. value fails with ErrTooLarge or ErrTooDeep before the whole value is in
// memory.
func (s *scanner) value() (item, error) {
	c, err := s.space()
	if err != nil {
		return item{}, fault.Truncated(err)
	}
	switch c {
	case '{', '[', '"':
	case ',', ':', '}', ']':
		return item{}, s.syntax("a value")
	default:
		raw, err := s.scalar()
		return item{raw: raw}, err
	}
	s.tape, s.open, s.inString = s.tape.reset(), s.open[:0], false
	for n := 0; ; {
		seen := s.buf[s.pos:min(s.end, s.pos+s.maxBytes+1)]
		var whole bool
		if n, whole, err = s.scan(seen, n); err != nil {
			return item{}, err
		}
		if whole {
			raw, err := s.take(n)
			return item{raw: raw, tape: s.tape}, err
		}
		if len(seen) > s.maxBytes {
			return item{}, fmt.Errorf("%w: more than %d bytes", fault.ErrTooLarge, s.maxBytes)
		}
		if err := s.fill(); err != nil {
			return item{}, fault.Truncated(err)
		}
	}
}

// scan continues with a value after its first n bytes. It returns how many bytes
// are done now, and whether the value is complete.
func (s *scanner) scan(value []byte, n int) (int, bool, error) {
	for n < len(value) {
		if s.inString {
			n = textEnd(value, n)
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
				// RFC 8259, section 7. In a watch, where each frame ends in a line
				// break, it shows that a quote was lost in this one: to look for
				// the next quote would be to swallow the changes that follow.
				return n, false, fmt.Errorf("%w: a control character in a string at byte %d of the body", fault.ErrSyntax, s.offset()+int64(n))
			}
			continue
		}
		c := value[n]
		n++
		switch marks[c] {
		case markQuote:
			s.inString = true
		case markOpen:
			if len(s.open) == s.maxDepth {
				return n, false, fmt.Errorf("%w: more than %d levels", fault.ErrTooDeep, s.maxDepth)
			}
			s.open = append(s.open, int32(len(s.tape)))
			s.tape = append(s.tape, extent{})
		case markClose:
			last := len(s.open) - 1
			s.tape[s.open[last]] = extent{end: int32(n), next: int32(len(s.tape))}
			if s.open = s.open[:last]; last == 0 {
				return n, true, nil
			}
		}
	}
	return n, false, nil
}

// mark is what a byte outside of strings means to a scan.
type mark uint8

const (
	markQuote mark = iota + 1
	markOpen
	markClose
)

var marks = [256]mark{'"': markQuote, '{': markOpen, '[': markOpen, '}': markClose, ']': markClose}

func (s *scanner) take(n int) ([]byte, error) {
	if n > s.maxBytes {
		return nil, fmt.Errorf("%w: %d bytes, more than %d", fault.ErrTooLarge, n, s.maxBytes)
	}
	b := s.buf[s.pos : s.pos+n : s.pos+n]
	s.pos += n
	return b, nil
}

// scalar consumes a number, true, false or null.
func (s *scanner) scalar() ([]byte, error) {
	for n := 0; ; n++ {
		if n == s.end-s.pos {
			if n > s.maxBytes {
				return nil, fmt.Errorf("%w: more than %d bytes", fault.ErrTooLarge, s.maxBytes)
			}
			if err := s.fill(); err != nil {
				return nil, fault.Truncated(err)
			}
		}
		if endsScalar[s.buf[s.pos+n]] {
			return s.take(n)
		}
	}
}
