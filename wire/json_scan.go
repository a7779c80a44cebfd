package wire

import (
	"encoding/json"
	"fmt"
)

// scanner finds the values in a JSON body without decoding them. It checks
// brackets, strings, size and depth; whether the value is valid otherwise is
// found out by whoever decodes it.
type scanner struct {
	*source
	maxBytes int
	maxDepth int
}

func (s *scanner) syntax(want string) error {
	return fmt.Errorf("%w: want %s at byte %d of the body", ErrSyntax, want, s.offset())
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
		return truncated(err)
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
		return false, truncated(err)
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
		return "", truncated(err)
	}
	if c != '"' {
		return "", s.syntax("a field name")
	}
	raw, err := s.value()
	if err != nil {
		return "", err
	}
	name, err := unquote(raw)
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

// value consumes the next value and returns its bytes, which are valid until
// the next call. It fails with ErrTooLarge or ErrTooDeep before the value is
// in memory as a whole.
func (s *scanner) value() ([]byte, error) {
	c, err := s.space()
	if err != nil {
		return nil, truncated(err)
	}
	switch c {
	case '{', '[', '"':
	case ',', ':', '}', ']':
		return nil, s.syntax("a value")
	default:
		return s.scalar()
	}
	depth, inString, escaped := 0, false, false
	for n := 0; ; n++ {
		if n == s.end-s.pos {
			if n > s.maxBytes {
				return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, s.maxBytes)
			}
			if err := s.fill(); err != nil {
				return nil, truncated(err)
			}
		}
		c := s.buf[s.pos+n]
		switch {
		case inString && c < ' ':
			// RFC 8259, section 7. In a watch, where each frame ends in a line
			// break, it shows that a quote was lost in this one: to look for
			// the next quote would be to swallow the changes that follow.
			return nil, fmt.Errorf("%w: a control character in a string at byte %d of the body", ErrSyntax, s.offset()+int64(n))
		case escaped:
			escaped = false
			continue
		case inString && c == '\\':
			escaped = true
			continue
		case c == '"':
			inString = !inString
		case inString:
			continue
		case c == '{' || c == '[':
			if depth++; depth > s.maxDepth {
				return nil, fmt.Errorf("%w: more than %d levels", ErrTooDeep, s.maxDepth)
			}
		case c == '}' || c == ']':
			depth--
		}
		if depth == 0 && !inString {
			return s.take(n + 1)
		}
	}
}

func (s *scanner) take(n int) ([]byte, error) {
	if n > s.maxBytes {
		return nil, fmt.Errorf("%w: %d bytes, more than %d", ErrTooLarge, n, s.maxBytes)
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
				return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, s.maxBytes)
			}
			if err := s.fill(); err != nil {
				return nil, truncated(err)
			}
		}
		switch s.buf[s.pos+n] {
		case ' ', '\t', '\r', '\n', ',', ':', ']', '}', '[', '{', '"':
			return s.take(n)
		}
	}
}
