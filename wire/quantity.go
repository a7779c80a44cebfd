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

// checkProtoQuantities is checkQuantities for the protobuf message raw, whose
// Go type is t. The numbers of fields come from the tags of t, so that a name
// or a label that reads like such a number is not taken for one.
func checkProtoQuantities(raw []byte, t reflect.Type) error {
	if !mayHaveHugeExponent(raw) {
		return nil
	}
	return findHugeProtoQuantity(raw, t)
}

func findHugeProtoQuantity(msg []byte, t reflect.Type) error {
	for len(msg) > 0 {
		f, rest, err := nextField(msg)
		if err != nil {
			return err
		}
		msg = rest
		if f.wire != wireBytes {
			continue
		}
		if t == reflect.TypeFor[resource.Quantity]() {
			if f.number == 1 && hasHugeExponent(f.bytes) {
				return ErrQuantity
			}
			continue
		}
		if value := valueMessage(t, f.number); value != nil && holdsQuantity(value, nil) {
			if err := findHugeProtoQuantity(f.bytes, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// valueMessage is the type of the messages in field number of t. The entries
// of a map are messages of their own, with the value in their field 2; they are
// the type itself, a map, and t may be one.
func valueMessage(t reflect.Type, number int) reflect.Type {
	if t.Kind() == reflect.Map {
		if number == 2 {
			return elementOf(t.Elem())
		}
		return nil
	}
	for i := range t.NumField() {
		tag := strings.Split(t.Field(i).Tag.Get("protobuf"), ",")
		if len(tag) > 1 && tag[1] == strconv.Itoa(number) {
			return elementOf(t.Field(i).Type)
		}
	}
	return nil
}

// elementOf strips what protobuf does not show: pointers and repetition.
func elementOf(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct && t.Kind() != reflect.Map {
		return nil
	}
	return t
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
