package json

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/millrace-dev/millrace/wire/internal/fault"
	"github.com/millrace-dev/millrace/wire/internal/frame"
	"github.com/millrace-dev/millrace/wire/internal/guard"
	"github.com/millrace-dev/millrace/wire/internal/memory"
)

// smallObject is the size, in bytes, below which lists can do no harm.
const smallObject = 64 << 10

// Suspicious reports whether Check has anything to look for in raw. Honest objects
// of a common size are not suspicious.
func Suspicious(raw []byte) bool { return len(raw) >= smallObject || guard.MayHoldAbsurd(raw) }

// Check fails where the reference must not read the JSON object raw. It looks
// at every value, as the reference does: also at the first of two that have one
// name.
func Check(g *guard.Guard, raw []byte) error {
	if !Suspicious(raw) || !json.Valid(raw) {
		return nil // the reference refuses it before it decodes anything
	}
	s := &frame.JSON{Source: frame.FromBytes(raw), MaxBytes: len(raw), MaxDepth: len(raw)}
	i, err := s.Value()
	if err != nil {
		return err
	}
	return checkItem(g, &walk{Item: i})
}

// checkItem is Check for the value that begins at w, which is valid. It
// passes over the value.
func checkItem(g *guard.Guard, w *walk) error {
	switch c := w.peek(); {
	case c == '{' && g.HasParts():
		return checkFields(g, w)
	case c == '[':
		for more := w.enter(']'); more; {
			if c := w.peek(); g.IsLarge && c != '{' && c != '[' && c != 'n' {
				return fmt.Errorf("%w: a list of %v holds something else", fault.ErrSyntax, g.Type)
			}
			if err := checkItem(g, w); err != nil {
				return err
			}
			more, _ = w.more(']')
		}
		return nil
	}
	start := w.at
	w.over()
	if text := w.Raw[start:w.at]; g.IsQuantity && (guard.Absurd(bytes.Trim(text, `"`)) || guard.Absurd(unquoted(text))) {
		return fault.ErrQuantity
	}
	return nil
}

func checkFields(g *guard.Guard, w *walk) error {
	for more := w.enter('}'); more; {
		w.peek()
		start := w.at
		w.over()
		name := memory.String(unquoted(w.Raw[start:w.at]))
		w.colon()
		value := *w
		w.over()
		after := *w
		for _, field := range g.Below(name) {
			*w = value
			if err := checkItem(field, w); err != nil {
				return fmt.Errorf("field %q: %w", fault.Excerpt(name), err)
			}
		}
		*w = after
		more, _ = w.more('}')
	}
	return nil
}

// unquoted returns what the JSON string raw stands for to the reference, and
// other values as they are.
func unquoted(raw []byte) []byte {
	if len(raw) < 2 || raw[0] != '"' {
		return raw
	}
	if inside := raw[1 : len(raw)-1]; bytes.IndexByte(inside, '\\') < 0 && isSound(inside) {
		return inside
	}
	if text, err := frame.Unquote(raw); err == nil {
		return []byte(text)
	}
	return raw
}
