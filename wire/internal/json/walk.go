package json

import (
	"strconv"
	"unicode/utf8"

	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/memory"
)

// walk is a position in an item and on its tape. Its methods advance the position, and fail with
// ErrUnusual on invalid JSON.
type walk struct {
	frame.Item
	at   int // the next byte
	next int // the next extent
}

// peek returns the next byte that is not white space, or 0 at the end.
func (w *walk) peek() byte {
	for w.at < len(w.Raw) {
		switch c := w.Raw[w.at]; c {
		case ' ', '\t', '\r', '\n':
			w.at++
		default:
			return c
		}
	}
	return 0
}

// enter enters the object or array that starts here. It reports whether it contains anything; if not, the
// walk has already left it again.
func (w *walk) enter(closing byte) bool {
	w.at++
	w.next++
	if w.peek() != closing {
		return true
	}
	w.at++
	return false
}

// more skips the comma before the next element, or leaves the object or array.
func (w *walk) more(closing byte) (bool, error) {
	switch w.peek() {
	case ',':
		w.at++
		return true, nil
	case closing:
		w.at++
		return false, nil
	}
	return false, fault.ErrUnusual
}

// colon skips the colon after a name.
func (w *walk) colon() error {
	if w.at < len(w.Raw) && w.Raw[w.at] == ':' || w.peek() == ':' {
		w.at++
		return nil
	}
	return fault.ErrUnusual
}

// containerBytes returns the bytes of the object or array that starts here.
func (w *walk) containerBytes() []byte {
	end := w.Tape[w.next].End
	return w.Raw[w.at:end:end]
}

// skipContainer skips the object or array that starts here.
func (w *walk) skipContainer() {
	over := w.Tape[w.next]
	w.at, w.next = int(over.End), int(over.Next)
}

// text reads a string and returns the bytes between its quotes. If plain is set, those bytes are the text;
// otherwise they contain escapes and may be invalid.
func (w *walk) text() (text []byte, plain bool, err error) {
	if w.peek() != '"' {
		return nil, false, fault.ErrUnusual
	}
	start := w.at + 1
	end := frame.TextEnd(w.Raw, start)
	if end < len(w.Raw) && w.Raw[end] == '"' {
		w.at = end + 1
		text = w.Raw[start:end:end]
		if !isSound(text) {
			return nil, false, fault.ErrUnusual
		}
		return text, true, nil
	}
	for end+1 < len(w.Raw) && w.Raw[end] == '\\' {
		end = frame.TextEnd(w.Raw, end+2)
	}
	if end >= len(w.Raw) || w.Raw[end] != '"' {
		return nil, false, fault.ErrUnusual
	}
	w.at = end + 1
	return w.Raw[start:end:end], false, nil
}

// literal reads true, false or null.
func (w *walk) literal(want string) error {
	end := w.at + len(want)
	if end > len(w.Raw) || string(w.Raw[w.at:end]) != want {
		return fault.ErrUnusual
	}
	w.at = end
	return nil
}

// number reads a number. whole means that there is neither a fraction nor an exponent.
func (w *walk) number() (text []byte, whole bool, err error) {
	b, n := w.Raw, w.at
	if n < len(b) && b[n] == '-' {
		n++
	}
	first := n
	n = digits(b, n)
	if n == first || b[first] == '0' && n > first+1 {
		return nil, false, fault.ErrUnusual
	}
	whole = true
	if n < len(b) && b[n] == '.' {
		whole = false
		if first, n = n+1, digits(b, n+1); n == first {
			return nil, false, fault.ErrUnusual
		}
	}
	if n < len(b) && b[n]|0x20 == 'e' {
		whole = false
		if n++; n < len(b) && (b[n] == '+' || b[n] == '-') {
			n++
		}
		if first, n = n, digits(b, n); n == first {
			return nil, false, fault.ErrUnusual
		}
	}
	text = b[w.at:n]
	w.at = n
	return text, whole, nil
}

// digits returns the index after the digits that start at n.
func digits(b []byte, n int) int {
	for n < len(b) && b[n]-'0' < 10 {
		n++
	}
	return n
}

// wholeNumber returns the value of a number without a fraction or exponent.
func wholeNumber(text []byte) (int64, error) {
	if len(text) > 18 {
		return strconv.ParseInt(memory.String(text), 10, 64)
	}
	negative := text[0] == '-'
	if negative {
		text = text[1:]
	}
	var v int64
	for _, c := range text {
		v = v*10 + int64(c-'0')
	}
	if negative {
		v = -v
	}
	return v, nil
}

// skip skips a value and checks that it is valid, as the reference does with
// unknown fields.
func (w *walk) skip() error {
	switch w.peek() {
	case '{':
		return w.skipObject()
	case '[':
		return w.skipArray()
	case '"':
		return w.skipText()
	case 't':
		return w.literal("true")
	case 'f':
		return w.literal("false")
	case 'n':
		return w.literal("null")
	}
	_, _, err := w.number()
	return err
}

func (w *walk) skipObject() error {
	for more := w.enter('}'); more; {
		if w.peek() != '"' {
			return fault.ErrUnusual
		}
		if err := w.skipText(); err != nil {
			return err
		}
		if err := w.colon(); err != nil {
			return err
		}
		if err := w.skip(); err != nil {
			return err
		}
		var err error
		if more, err = w.more('}'); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) skipArray() error {
	for more := w.enter(']'); more; {
		if err := w.skip(); err != nil {
			return err
		}
		var err error
		if more, err = w.more(']'); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) skipText() error {
	text, plain, err := w.text()
	if err != nil || plain {
		return err
	}
	for n := frame.TextEnd(text, 0); n < len(text); n = frame.TextEnd(text, n) {
		switch c := text[n+1]; {
		case c == 'u':
			if _, ok := hexRune(text[n+2:]); !ok {
				return fault.ErrUnusual
			}
			n += 6
		case escapes[c] == 0 || c >= utf8.RuneSelf:
			return fault.ErrUnusual
		default:
			n += 2
		}
	}
	return nil
}

// uncountable is the result of count for invalid input.
const uncountable = -1

// count returns the number of elements in the array, or of fields in the object, that starts here.
// If first is not 0, each value must be null or start with that byte. The memory for all elements
// is allocated before any is decoded, so count checks that all of them exist.
func (w *walk) count(first byte) int {
	at, next := w.at, w.next
	defer func() { w.at, w.next = at, next }()
	closing := w.Raw[w.Tape[next].End-1]
	n := 0
	for more := w.enter(closing); more; n++ {
		if closing == '}' {
			if _, _, err := w.text(); err != nil || w.colon() != nil {
				return uncountable
			}
		}
		switch c := w.peek(); {
		case first != 0 && c != first && c != 'n', frame.EndsScalar[c] && c != '{' && c != '[' && c != '"':
			return uncountable
		}
		w.skipUnchecked()
		var err error
		if more, err = w.more(closing); err != nil {
			return uncountable
		}
	}
	return n
}

// skipUnchecked skips a value known to be valid.
func (w *walk) skipUnchecked() {
	switch w.peek() {
	case '{', '[':
		w.skipContainer()
		return
	case '"':
		w.at = frame.TextEnd(w.Raw, w.at+1)
		for w.at+1 < len(w.Raw) && w.Raw[w.at] == '\\' {
			w.at = frame.TextEnd(w.Raw, w.at+2)
		}
		w.at = min(w.at+1, len(w.Raw))
		return
	}
	for w.at < len(w.Raw) && !frame.EndsScalar[w.Raw[w.at]] {
		w.at++
	}
}
