package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// maxExponentDigits bounds the exponent of a quantity such as "1e3".
// resource.ParseQuantity computes with numbers as long as the exponent is
// large: "1e-999999999" keeps it busy for hours. Quantities end at 2^63, so
// that three digits are more than any sound one has.
const maxExponentDigits = 4

// hasHugeExponent reports whether s is, as a whole, a number with an exponent
// of more than maxExponentDigits digits. White space around it, which a quantity
// in JSON may have, does not count.
func hasHugeExponent(s []byte) bool {
	s = bytes.TrimSpace(s)
	e := bytes.IndexAny(s, "eE")
	if e <= 0 {
		return false
	}
	exponent := bytes.TrimLeft(s[e+1:], "+-")
	return len(exponent) > maxExponentDigits &&
		len(bytes.Trim(exponent, "0123456789")) == 0 &&
		len(bytes.Trim(s[:e], "+-.0123456789")) == 0
}

// quantityMap says where the values of one Go type hold quantities, so that
// those alone are looked at: names and hashes may read like such a number too.
// Pointers and lists do not show in it: what holds for an element holds for all.
type quantityMap struct {
	isQuantity bool
	numbers    []*quantityMap          // protobuf fields that lead to quantities, by number
	names      map[string]*quantityMap // JSON fields that do
	each       *quantityMap            // of a map, every value
}

// mapQuantities returns the map of t, or nil where it holds no quantity.
func mapQuantities(t reflect.Type) *quantityMap {
	if !holdsQuantity(t, nil) {
		return nil
	}
	return drawQuantities(t, make(map[reflect.Type]*quantityMap))
}

// drawQuantities is for types that do hold quantities; known are those that
// were met before.
func drawQuantities(t reflect.Type, known map[reflect.Type]*quantityMap) *quantityMap {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Array {
		t = t.Elem()
	}
	if m, ok := known[t]; ok {
		return m
	}
	m := new(quantityMap)
	known[t] = m
	switch {
	case t == reflect.TypeFor[resource.Quantity]():
		m.isQuantity = true
	case t.Kind() == reflect.Map:
		m.each = drawQuantities(t.Elem(), known)
		// In protobuf an entry is a message with the value in field 2.
		m.numbers = []*quantityMap{2: m.each}
	default:
		m.drawFields(t, known)
	}
	return m
}

func (m *quantityMap) drawFields(t reflect.Type, known map[reflect.Type]*quantityMap) {
	m.names = make(map[string]*quantityMap)
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() || !holdsQuantity(f.Type, nil) {
			continue
		}
		field := drawQuantities(f.Type, known)
		if tag := strings.Split(f.Tag.Get("protobuf"), ","); len(tag) > 1 {
			if number, err := strconv.Atoi(tag[1]); err == nil {
				for len(m.numbers) <= number {
					m.numbers = append(m.numbers, nil)
				}
				m.numbers[number] = field
			}
		}
		switch name, _, _ := strings.Cut(f.Tag.Get("json"), ","); {
		case name != "":
			m.names[name] = field
		case !f.Anonymous:
			m.names[f.Name] = field
		default: // inlined
			for name, inner := range field.names {
				m.names[name] = inner
			}
		}
	}
}

// checkJSON fails with ErrQuantity where a quantity in the JSON object raw has
// an absurd exponent.
func (m *quantityMap) checkJSON(raw []byte) error {
	if !mayHoldHugeExponent(raw) {
		return nil
	}
	var v any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return withoutContent(err)
	}
	return m.checkValue(v)
}

func (m *quantityMap) checkValue(v any) error {
	switch v := v.(type) {
	case string:
		if m.isQuantity && hasHugeExponent([]byte(v)) {
			return ErrQuantity
		}
	case json.Number:
		return m.checkValue(v.String())
	case []any:
		for _, element := range v {
			if err := m.checkValue(element); err != nil {
				return err
			}
		}
	case map[string]any:
		for name, value := range v {
			field := m.each
			if m.names != nil {
				field = m.names[name]
			}
			if field == nil {
				continue
			}
			if err := field.checkValue(value); err != nil {
				return fmt.Errorf("field %q: %w", excerpt(name), err)
			}
		}
	}
	return nil
}

// mayHoldHugeExponent reports whether a string or number of the JSON text raw
// may be, as a whole, a number with a long exponent. It is the quick test
// before a slow one: nearly all objects pass it.
func mayHoldHugeExponent(raw []byte) bool {
	if hidesNumerals(raw) {
		return true
	}
	for e := 1; e < len(raw); e++ {
		if raw[e]|0x20 != 'e' || !isNumeric(raw[e-1]) {
			continue
		}
		start, end := e-1, e+1
		for start > 0 && isNumeric(raw[start-1]) {
			start--
		}
		for end < len(raw) && isNumeric(raw[end]) {
			end++
		}
		if end-e > maxExponentDigits && (start == 0 || !isLetter(raw[start-1])) && (end == len(raw) || !isLetter(raw[end])) {
			return true
		}
	}
	return false
}

// hidesNumerals reports whether raw writes a character of a number as an escape,
// such as \u0065 for an e, which nobody does in good faith.
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

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// checkProto is checkJSON for the protobuf message msg. It skips over all that
// does not lead to a quantity.
func (m *quantityMap) checkProto(msg []byte) error {
	for len(msg) > 0 {
		f, rest, err := nextField(msg)
		if err != nil {
			return err
		}
		msg = rest
		switch {
		case f.wire != wireBytes:
		case m.isQuantity:
			if f.number == 1 && hasHugeExponent(f.bytes) {
				return ErrQuantity
			}
		case f.number < len(m.numbers) && m.numbers[f.number] != nil:
			if err := m.numbers[f.number].checkProto(f.bytes); err != nil {
				return err
			}
		}
	}
	return nil
}

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
			if f := t.Field(i); f.IsExported() && holdsQuantity(f.Type, path) {
				return true
			}
		}
	}
	return false
}
