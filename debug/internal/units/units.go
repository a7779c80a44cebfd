// Package units converts between Go values and JSON whose field names include the unit.
//
// A field QueueAge of type time.Duration becomes the number "queueAgeSeconds". A time becomes an RFC 3339
// string, an error becomes its text, and a value of a numeric type with a MarshalText method becomes its
// name. All other structs are encoded field by field, in order and with embedded structs inlined, even if
// they have methods such as MarshalJSON. Nil values, empty strings and zero times are omitted. So are zero
// numbers, booleans and structs if the field's tag has omitzero.
package units

import (
	"encoding"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"sync"
	"time"
	"unicode"
)

var (
	durationType = reflect.TypeFor[time.Duration]()
	timeType     = reflect.TypeFor[time.Time]()
	errorType    = reflect.TypeFor[error]()
	rawType      = reflect.TypeFor[json.RawMessage]()
)

// field describes a struct field, possibly promoted from an embedded struct.
type field struct {
	index    []int
	name     string // including the unit
	omitZero bool
}

var known sync.Map // maps reflect.Type to []field

// fieldsOf returns the exported fields of a struct type.
func fieldsOf(t reflect.Type) []field {
	if fields, ok := known.Load(t); ok {
		return fields.([]field)
	}
	var fields []field
	for n := range t.NumField() {
		f := t.Field(n)
		if f.Anonymous && f.Type.Kind() == reflect.Struct {
			for _, inner := range fieldsOf(f.Type) {
				inner.index = append([]int{n}, inner.index...)
				fields = append(fields, inner)
			}
			continue
		}
		if !f.IsExported() {
			continue
		}
		_, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		name := camel(f.Name)
		if f.Type == durationType {
			name += "Seconds"
		}
		fields = append(fields, field{[]int{n}, name, strings.Contains(options, "omitzero")})
	}
	known.Store(t, fields)
	return fields
}

// camel converts a Go name to a JSON name: RetryAt to retryAt, RV to rv, UIDOf to
// uidOf.
func camel(name string) string {
	runes := []rune(name)
	for i, r := range runes {
		if i > 0 && i+1 < len(runes) && unicode.IsUpper(r) && unicode.IsLower(runes[i+1]) {
			break
		}
		if !unicode.IsUpper(r) {
			break
		}
		runes[i] = unicode.ToLower(r)
	}
	return string(runes)
}

// named reports whether t is a numeric type whose values have names.
func named(t reflect.Type) bool {
	return t.Kind() == reflect.Uint8 && t.Implements(reflect.TypeFor[encoding.TextMarshaler]())
}

// valueNamed returns the value with the given name. An unknown name, perhaps from a later version,
// yields 0.
func valueNamed(t reflect.Type, name string) reflect.Value {
	v := reflect.New(t).Elem()
	for n := range uint64(256) {
		v.SetUint(n)
		if text, err := v.Interface().(encoding.TextMarshaler).MarshalText(); err == nil && string(text) == name {
			return v
		}
	}
	v.SetZero()
	return v
}

// absent reports whether a value is omitted.
func absent(v reflect.Value, omitZero bool) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Map, reflect.Slice, reflect.Func:
		return v.IsNil()
	case reflect.String:
		return v.Len() == 0
	}
	return (omitZero || v.Type() == timeType) && v.IsZero()
}

func asError(text string) error { return errors.New(text) }
