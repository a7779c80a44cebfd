package wire

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/millrace-dev/millrace/wire/internal/fault"
)

// resource.ParseQuantity computes with numbers as long as their text or as their
// exponent is large: "1e-999999999" keeps it busy for hours, a million digits for
// seconds. Quantities end at 2^63 and at nine decimals, so no sound one comes near
// these limits.
const (
	maxExponentDigits = 3
	maxNumerals       = 1024
)

// isAbsurd reports whether the text of a quantity would take long to parse: whether
// it is a number with too many digits or too long an exponent. White space around
// it does not count.
func isAbsurd(s []byte) bool {
	s = bytes.TrimSpace(s)
	n := 0
	for n < len(s) && isNumeric(s[n]) {
		n++
	}
	if n > maxNumerals {
		return true
	}
	if n == 0 || n == len(s) || s[n]|0x20 != 'e' {
		return false
	}
	exponent := bytes.TrimLeft(bytes.TrimLeft(s[n+1:], "+-"), "0")
	return len(exponent) > maxExponentDigits && digits(exponent, 0) == len(exponent)
}

// fieldGuard says where values of one Go type hold what must be checked before the
// reference reads it, by field name:
//
//   - quantities; other fields are not checked, because names and hashes may look
//     like absurd numbers too
//   - lists of large structs, for which the reference allocates memory even if the
//     elements are something else
//
// Pointers and lists have no guard of their own, but that of their elements.
type fieldGuard struct {
	isQuantity bool
	isLarge    bool                     // a struct that is read field by field, from an object
	names      map[string][]*fieldGuard // the fields of a struct; embedding may give two the same name
	each       []*fieldGuard            // of a map, every value
	typ        reflect.Type
}

// largeElement is the size, in bytes, from which a struct is large.
const largeElement = 64

// fieldGuardOf returns the guard of t.
func fieldGuardOf(t reflect.Type) *fieldGuard {
	return drawGuard(t, make(map[reflect.Type]*fieldGuard))
}

// drawGuard is fieldGuardOf; known are the types that were met before.
func drawGuard(t reflect.Type, known map[reflect.Type]*fieldGuard) *fieldGuard {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Array {
		t = t.Elem()
	}
	if g, ok := known[t]; ok {
		return g
	}
	g := &fieldGuard{typ: t}
	known[t] = g
	switch {
	case t == reflect.TypeFor[resource.Quantity]():
		g.isQuantity = true
	case t.Kind() == reflect.Map:
		g.each = []*fieldGuard{drawGuard(t.Elem(), known)}
	case t.Kind() == reflect.Struct:
		p := reflect.PointerTo(t)
		readsItself := p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
		g.isLarge = !readsItself && t.Size() >= largeElement
		g.names = make(map[string][]*fieldGuard)
		g.drawFields(known)
	}
	return g
}

func (g *fieldGuard) drawFields(known map[reflect.Type]*fieldGuard) {
	for i := range g.typ.NumField() {
		f := g.typ.Field(i)
		if !f.IsExported() && !f.Anonymous {
			continue
		}
		field := drawGuard(f.Type, known)
		switch name, _, _ := strings.Cut(f.Tag.Get("json"), ","); {
		case name != "":
			g.names[name] = append(g.names[name], field)
		case !f.Anonymous:
			g.names[f.Name] = append(g.names[f.Name], field)
		default: // inlined
			for name, inner := range field.names {
				g.names[name] = append(g.names[name], inner...)
			}
		}
	}
}

// smallObject is the size, in bytes, below which lists can do no harm.
const smallObject = 64 << 10

// below returns what is known of the value of a field, or of a map's entry.
func (g *fieldGuard) below(name string) []*fieldGuard {
	if g.each != nil {
		return g.each
	}
	return g.names[name]
}

// checkJSON fails where the reference must not read the JSON object raw. It looks
// at every value, as the reference does: also at the first of two that have one
// name.
func (g *fieldGuard) checkJSON(raw []byte) error {
	if len(raw) < smallObject && !mayHoldAbsurd(raw) || !json.Valid(raw) {
		return nil // the reference refuses it before it decodes anything
	}
	s := &scanner{source: bytesSource(raw), maxBytes: len(raw), maxDepth: len(raw)}
	i, err := s.value()
	if err != nil {
		return err
	}
	return g.checkItem(&walk{item: i})
}

// checkItem is checkJSON for the value that begins at w, which is valid. It
// passes over the value.
func (g *fieldGuard) checkItem(w *walk) error {
	switch c := w.peek(); {
	case c == '{' && (g.each != nil || g.names != nil):
		return g.checkFields(w)
	case c == '[':
		for more := w.enter(']'); more; {
			if c := w.peek(); g.isLarge && c != '{' && c != '[' && c != 'n' {
				return fmt.Errorf("%w: a list of %v holds something else", fault.ErrSyntax, g.typ)
			}
			if err := g.checkItem(w); err != nil {
				return err
			}
			more, _ = w.more(']')
		}
		return nil
	}
	start := w.at
	w.over()
	if text := w.raw[start:w.at]; g.isQuantity && (isAbsurd(bytes.Trim(text, `"`)) || isAbsurd(unquoted(text))) {
		return fault.ErrQuantity
	}
	return nil
}

func (g *fieldGuard) checkFields(w *walk) error {
	for more := w.enter('}'); more; {
		w.peek()
		start := w.at
		w.over()
		name := string(unquoted(w.raw[start:w.at]))
		w.colon()
		value := *w
		value.over()
		for _, field := range g.below(name) {
			at := *w
			if err := field.checkItem(&at); err != nil {
				return fmt.Errorf("field %q: %w", fault.Excerpt(name), err)
			}
		}
		*w = value
		more, _ = w.more('}')
	}
	return nil
}

// unquoted returns what the JSON string raw stands for to the reference, and
// other values as they are.
func unquoted(raw []byte) []byte {
	if text, err := unquote(raw); err == nil {
		return []byte(text)
	}
	return raw
}

func (g *fieldGuard) checkValue(v any) error {
	switch v := v.(type) {
	case string:
		if g.isQuantity && isAbsurd([]byte(v)) {
			return fault.ErrQuantity
		}
	case []any:
		for _, element := range v {
			if err := g.checkValue(element); err != nil {
				return err
			}
		}
	case map[string]any:
		for name, value := range v {
			for _, field := range g.below(name) {
				if err := field.checkValue(value); err != nil {
					return fmt.Errorf("field %q: %w", fault.Excerpt(name), err)
				}
			}
		}
	}
	return nil
}

// mayHoldAbsurd reports whether a string or number of the JSON text raw may be
// absurd as a quantity. It is a quick test that saves most objects a slow one.
func mayHoldAbsurd(raw []byte) bool {
	for n := 0; n < len(raw); n++ {
		start := n
		for n < len(raw) && isNumeric(raw[n]) {
			n++
		}
		if n-start > maxNumerals {
			return true
		}
		if n == start || n == len(raw) || raw[n]|0x20 != 'e' {
			continue
		}
		end := n + 1
		for end < len(raw) && isNumeric(raw[end]) {
			end++
		}
		if end-n > maxExponentDigits {
			return true
		}
	}
	return hidesNumerals(raw)
}

// hidesNumerals reports whether raw writes a character of a number as an escape,
// such as \u0065 for an e, which no honest writer does.
func hidesNumerals(raw []byte) bool {
	for {
		_, after, found := bytes.Cut(raw, []byte(`\u00`))
		if !found || len(after) < 2 {
			return false
		}
		if c, err := strconv.ParseUint(string(after[:2]), 16, 8); err == nil && (isNumeric(byte(c)) || c|0x20 == 'e') {
			return true
		}
		raw = after
	}
}

func isNumeric(c byte) bool { return c >= '0' && c <= '9' || c == '+' || c == '-' || c == '.' }

// holdsQuantity reports whether a value of t can hold a resource.Quantity.
func holdsQuantity(t reflect.Type, path []reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return holdsQuantity(t.Elem(), path)
	case reflect.Struct:
		if t == reflect.TypeFor[resource.Quantity]() {
			return true
		}
		for _, p := range path {
			if p == t {
				return false
			}
		}
		path = append(path, t)
		for i := range t.NumField() {
			if f := t.Field(i); (f.IsExported() || f.Anonymous) && holdsQuantity(f.Type, path) {
				return true
			}
		}
	}
	return false
}
