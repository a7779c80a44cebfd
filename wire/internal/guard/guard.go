package guard

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/millrace-dev/millrace/wire/internal/fault"
)

// resource.ParseQuantity computes with numbers as long as their text or as their
// exponent is large: "1e-999999999" keeps it busy for hours, a million digits for
// seconds. Quantities end at 2^63 and at nine decimals, so no sound one comes near
// these limits.
const (
	maxExponentDigits = 3

	// MaxNumerals is how many digits, signs and points a quantity may have.
	MaxNumerals = 1024
)

// Absurd reports whether the text of a quantity would take long to parse: whether
// it is a number with too many digits or too long an exponent. White space around
// it does not count.
func Absurd(s []byte) bool {
	s = bytes.TrimSpace(s)
	n := 0
	for n < len(s) && isNumeric(s[n]) {
		n++
	}
	if n > MaxNumerals {
		return true
	}
	if n == 0 || n == len(s) || s[n]|0x20 != 'e' {
		return false
	}
	exponent := bytes.TrimLeft(bytes.TrimLeft(s[n+1:], "+-"), "0")
	return len(exponent) > maxExponentDigits && len(bytes.Trim(exponent, "0123456789")) == 0
}

// PlainQuantity reports whether s is a quantity of a few digits and perhaps a suffix, as
// nearly all are. Others are to be parsed.
func PlainQuantity(s []byte) bool {
	const mostDigits = 15
	n := 0
	for n < len(s) && n < mostDigits && s[n]-'0' < 10 {
		n++
	}
	if n == 0 {
		return false
	}
	switch string(s[n:]) {
	case "", "m", "k", "M", "G", "Ki", "Mi", "Gi":
		return true
	}
	return false
}

// Guard says where values of one Go type hold what must be checked before the
// reference reads it, by field name:
//
//   - quantities; other fields are not checked, because names and hashes may look
//     like absurd numbers too
//   - lists of large structs, for which the reference allocates memory even if the
//     elements are something else
//
// Pointers and lists have no guard of their own, but that of their elements.
type Guard struct {
	Type       reflect.Type
	IsQuantity bool
	IsLarge    bool // a struct that is read field by field, from an object

	names map[string][]*Guard // the fields of a struct; embedding may give two the same name
	each  []*Guard            // of a map, every value
}

// largeElement is the size, in bytes, from which a struct is large.
const largeElement = 64

// drawn are the guards of all types that were asked for, *Guard by reflect.Type. There is
// one for each type that a program decodes, and nobody changes it.
var drawn sync.Map

// Of returns the guard of t, which is shared.
func Of(t reflect.Type) *Guard {
	if g, ok := drawn.Load(t); ok {
		return g.(*Guard)
	}
	known := make(map[reflect.Type]*Guard)
	g := drawGuard(t, known)
	prune(known)
	shared, _ := drawn.LoadOrStore(t, g)
	return shared.(*Guard)
}

// prune takes away what leads to nothing that is checked, such as labels, so that it is
// passed over. A type may contain itself, so it first finds what matters.
func prune(all map[reflect.Type]*Guard) {
	matters := make(map[*Guard]bool)
	for grown := true; grown; {
		grown = false
		for _, g := range all {
			if !matters[g] && (g.IsQuantity || g.IsLarge || g.leadsTo(matters)) {
				matters[g], grown = true, true
			}
		}
	}
	idle := func(g *Guard) bool { return !matters[g] }
	for _, g := range all {
		if g.each = slices.DeleteFunc(g.each, idle); len(g.each) == 0 {
			g.each = nil
		}
		for name, below := range g.names {
			if g.names[name] = slices.DeleteFunc(below, idle); len(g.names[name]) == 0 {
				delete(g.names, name)
			}
		}
	}
}

// leadsTo reports whether one of these is directly below g.
func (g *Guard) leadsTo(these map[*Guard]bool) bool {
	in := func(g *Guard) bool { return these[g] }
	if slices.ContainsFunc(g.each, in) {
		return true
	}
	for _, below := range g.names {
		if slices.ContainsFunc(below, in) {
			return true
		}
	}
	return false
}

// drawGuard is Of; known are the types that were met before.
func drawGuard(t reflect.Type, known map[reflect.Type]*Guard) *Guard {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Array {
		t = t.Elem()
	}
	if g, ok := known[t]; ok {
		return g
	}
	g := &Guard{Type: t}
	known[t] = g
	switch {
	case t == reflect.TypeFor[resource.Quantity]():
		g.IsQuantity = true
	case t.Kind() == reflect.Map:
		g.each = []*Guard{drawGuard(t.Elem(), known)}
	case t.Kind() == reflect.Struct:
		p := reflect.PointerTo(t)
		readsItself := p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
		g.IsLarge = !readsItself && t.Size() >= largeElement
		g.names = make(map[string][]*Guard)
		g.drawFields(known)
	}
	return g
}

func (g *Guard) drawFields(known map[reflect.Type]*Guard) {
	for i := range g.Type.NumField() {
		f := g.Type.Field(i)
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

// HasParts reports whether there is a guard for the fields of an object.
func (g *Guard) HasParts() bool { return g.each != nil || len(g.names) > 0 }

// Below returns what is known of the value of a field, or of a map's entry.
func (g *Guard) Below(name string) []*Guard {
	if g.each != nil {
		return g.each
	}
	return g.names[name]
}

// CheckValue fails with ErrQuantity where a value without a Go type, such as a
// map[string]any, holds an absurd quantity.
func (g *Guard) CheckValue(v any) error {
	switch v := v.(type) {
	case string:
		if g.IsQuantity && Absurd([]byte(v)) {
			return fault.ErrQuantity
		}
	case []any:
		for _, element := range v {
			if err := g.CheckValue(element); err != nil {
				return err
			}
		}
	case map[string]any:
		for name, value := range v {
			for _, field := range g.Below(name) {
				if err := field.CheckValue(value); err != nil {
					return fmt.Errorf("field %q: %w", fault.Excerpt(name), err)
				}
			}
		}
	}
	return nil
}

// MayHoldAbsurd reports whether a string or number of the JSON text raw may be
// absurd as a quantity. It is a quick test that saves nearly all objects a slow one:
// digits around an e are in every other hash, but not as a whole word.
func MayHoldAbsurd(raw []byte) bool {
	for n := 0; n < len(raw); n++ {
		start := n
		for n < len(raw) && isNumeric(raw[n]) {
			n++
		}
		if n-start > MaxNumerals {
			return true
		}
		if n > start && n < len(raw) && raw[n]|0x20 == 'e' && endsAbsurd(raw[n+1:]) && mayBegin(raw[:start]) {
			return true
		}
	}
	return hidesNumerals(raw)
}

// endsAbsurd reports whether s begins with too long an exponent, and a string or
// number may end after it.
func endsAbsurd(s []byte) bool {
	n := 0
	for n < len(s) && (s[n] == '+' || s[n] == '-') {
		n++
	}
	for n < len(s) && s[n] == '0' {
		n++
	}
	first := n
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n-first > maxExponentDigits && (n == len(s) || s[n] == '\\' || isBorder(s[n]))
}

// mayBegin reports whether a string or number may begin after s, perhaps with white
// space.
func mayBegin(s []byte) bool {
	return len(s) == 0 || isBorder(s[len(s)-1]) || bytes.IndexByte(s[max(0, len(s)-longestEscape):], '\\') >= 0
}

// longestEscape is the length of an escape such as \u202f.
const longestEscape = 6

// isBorder reports whether c may be around a string or number, or be white space in a
// string.
func isBorder(c byte) bool {
	switch c {
	case '"', ',', ':', '[', ']', '{', '}':
		return true
	}
	return c <= ' ' || c >= utf8.RuneSelf
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

// HoldsQuantity reports whether a value of t can hold a resource.Quantity.
func HoldsQuantity(t reflect.Type) bool { return quantityWithin(t, nil) }

// HasQuantity reports whether a value of t is a resource.Quantity or has one in itself: not
// behind a pointer, nor in a list or a map. To read a quantity may write to it: it keeps its
// text when that is first asked for, and takes another form when it is compared with some.
func HasQuantity(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Array:
		return HasQuantity(t.Elem())
	case reflect.Struct:
		if t == reflect.TypeFor[resource.Quantity]() {
			return true
		}
		for i := range t.NumField() {
			if HasQuantity(t.Field(i).Type) {
				return true
			}
		}
	}
	return false
}

// quantityWithin is HoldsQuantity; path holds the struct types on the way to t.
func quantityWithin(t reflect.Type, path []reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return quantityWithin(t.Elem(), path)
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
			if f := t.Field(i); (f.IsExported() || f.Anonymous) && quantityWithin(f.Type, path) {
				return true
			}
		}
	}
	return false
}
