package guard

import (
	"bytes"
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"
)

// The running time of resource.ParseQuantity grows with the length of the text and with the exponent: it
// takes hours for "1e-999999999" and seconds for a million digits. Quantities are limited to 2^63 and nine
// decimal places, so valid ones are nowhere near these limits.
const (
	maxExponentDigits = 2 // three would take 3 KB each to parse

	// MaxNumerals is the maximum number of digits, signs and points in a quantity.
	MaxNumerals = 1024
)

// AbsurdQuantity reports whether a quantity would take too long to parse because it has too many digits or
// too long an exponent. It ignores surrounding white space.
func AbsurdQuantity(s []byte) bool {
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

// PlainQuantity reports whether s is a quantity with a few digits and possibly a suffix, like nearly all
// quantities. All others must be parsed.
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

func isNumeric(c byte) bool { return c >= '0' && c <= '9' || c == '+' || c == '-' || c == '.' }

// ReachesQuantity reports whether a resource.Quantity can be reached from a value of type t.
func ReachesQuantity(t reflect.Type) bool { return quantityWithin(t, nil) }

// ContainsQuantity reports whether a value of type t is a resource.Quantity or contains one
// directly, not behind a pointer and not in a list or map. Reading such a value may write to it: a
// quantity caches its text on first use, and some comparisons change its representation.
func ContainsQuantity(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Array:
		return ContainsQuantity(t.Elem())
	case reflect.Struct:
		if t == reflect.TypeFor[resource.Quantity]() {
			return true
		}
		for i := range t.NumField() {
			if ContainsQuantity(t.Field(i).Type) {
				return true
			}
		}
	}
	return false
}

// quantityWithin implements ReachesQuantity. path contains the struct types on the path to t.
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
