package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"
)

// maxExponentDigits bounds the exponent of a quantity such as "1e3".
// resource.ParseQuantity computes with numbers as long as the exponent is
// large: "1e-999999999" keeps it busy for hours. Quantities end at 2^63, so
// that three digits are more than any sound one has.
const maxExponentDigits = 4

// hasHugeExponent reports whether s is, as a whole, a number with an exponent
// of more than maxExponentDigits digits.
func hasHugeExponent(s []byte) bool {
	e := bytes.IndexAny(s, "eE")
	if e <= 0 {
		return false
	}
	exponent := bytes.TrimLeft(s[e+1:], "+-")
	return len(exponent) > maxExponentDigits &&
		len(bytes.Trim(exponent, "0123456789")) == 0 &&
		len(bytes.Trim(s[:e], "+-.0123456789")) == 0
}

// mayHaveHugeExponent reports whether hasHugeExponent may hold for some part
// of raw. It is the quick test before a slow one: nearly all objects pass it.
func mayHaveHugeExponent(raw []byte) bool {
	digits := -1 // read since an e that follows a digit; -1 where there is none
	for i, c := range raw {
		switch {
		case digits >= 0 && c >= '0' && c <= '9':
			if digits++; digits > maxExponentDigits {
				return true
			}
		case (c == 'e' || c == 'E') && i > 0 && (raw[i-1] == '.' || raw[i-1] >= '0' && raw[i-1] <= '9'):
			digits = 0
		case digits == 0 && (c == '+' || c == '-'):
		default:
			digits = -1
		}
	}
	return false
}

// checkQuantities fails with ErrQuantity where a field of type Quantity in the
// JSON object raw, whose Go type is t, has an absurd exponent.
func checkQuantities(raw []byte, t reflect.Type) error {
	if !mayHaveHugeExponent(raw) {
		return nil
	}
	var v any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return withoutContent(err)
	}
	return findHugeQuantity(v, t)
}

func findHugeQuantity(v any, t reflect.Type) error {
	if t == reflect.TypeFor[resource.Quantity]() {
		var s string
		switch v := v.(type) {
		case string:
			s = v
		case json.Number:
			s = v.String()
		}
		if hasHugeExponent([]byte(s)) {
			return ErrQuantity
		}
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return findHugeQuantity(v, t.Elem())
	case reflect.Slice, reflect.Array:
		elements, _ := v.([]any)
		for _, e := range elements {
			if err := findHugeQuantity(e, t.Elem()); err != nil {
				return err
			}
		}
	case reflect.Map:
		fields, _ := v.(map[string]any)
		for _, e := range fields {
			if err := findHugeQuantity(e, t.Elem()); err != nil {
				return err
			}
		}
	case reflect.Struct:
		fields, _ := v.(map[string]any)
		return findInStruct(fields, v, t)
	}
	return nil
}

func findInStruct(fields map[string]any, v any, t reflect.Type) error {
	for i := range t.NumField() {
		f := t.Field(i)
		name := jsonName(f)
		value, ok := fields[name]
		switch {
		case f.Anonymous && name == "":
			value = v
		case !ok || !f.IsExported():
			continue
		}
		if err := findHugeQuantity(value, f.Type); err != nil {
			return fmt.Errorf("field %q: %w", f.Name, err)
		}
	}
	return nil
}

func jsonName(f reflect.StructField) string {
	name, _, _ := bytes.Cut([]byte(f.Tag.Get("json")), []byte(","))
	if len(name) == 0 && !f.Anonymous {
		return f.Name
	}
	return string(name)
}

// longMantissa is longer than the mantissa of any number that a person or a
// program writes, and short enough that the lengths around it are one byte.
const longMantissa = 100

// checkProtoQuantities is checkQuantities for protobuf. A Quantity is a message
// with the number as its only field, so that its bytes are its length plus 2,
// 0x0a, its length and the text. Where a whole message is nothing but such a
// text it is refused; API types have hardly another message of that shape, and
// none whose text is a number with an exponent of five digits.
func checkProtoQuantities(raw []byte) error {
	if !mayHaveHugeExponent(raw) {
		return nil
	}
	for i, c := range raw {
		if c == 'e' || c == 'E' {
			if err := checkExponentAt(raw, i); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkExponentAt looks at the number around the e at i.
func checkExponentAt(raw []byte, i int) error {
	end := i + 1
	for end < len(raw) && bytes.IndexByte([]byte("+-0123456789"), raw[end]) >= 0 {
		end++
	}
	if len(bytes.TrimLeft(raw[i+1:end], "+-")) <= maxExponentDigits {
		return nil
	}
	for start := i - 1; start >= 3 && bytes.IndexByte([]byte("+-.0123456789"), raw[start]) >= 0; start-- {
		if i-start > longMantissa {
			return ErrQuantity
		}
		// The text may be followed by bytes that happen to be digits, so that
		// its length decides where it ends.
		n := int(raw[start-1])
		if raw[start-2] == 0x0a && int(raw[start-3]) == n+2 && start+n <= end && hasHugeExponent(raw[start:start+n]) {
			return ErrQuantity
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
