// Package units writes Go values as JSON whose names tell the unit, and reads it back into
// values of the same types.
//
// A field QueueAge of type time.Duration is "queueAgeSeconds", a number. A time is a text
// in the form of RFC 3339. What is an error is its text. A number with names for its values,
// which is one with MarshalText, is written by name. All other structs are written by
// their fields, whatever methods they have, in the order of the fields, and embedded ones as
// if their fields were their owner's. What is nil, an empty text and a zero time are left
// out; numbers, truths and structs are left out where the field's tag says omitzero.
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

// field is a field of a struct, or of one that is embedded in it.
type field struct {
	index    []int
	name     string // with the unit
	omitZero bool
}

var known sync.Map // of reflect.Type to []field

// fieldsOf lists the exported fields of a struct.
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

// camel writes a Go name as JSON's are: RetryAt is retryAt, RV is rv, UIDOf is uidOf.
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

// named reports whether values of t, which are numbers, have names.
func named(t reflect.Type) bool {
	return t.Kind() == reflect.Uint8 && t.Implements(reflect.TypeFor[encoding.TextMarshaler]())
}

// valueNamed finds the number that has a name. One that nobody has is 0: a later version
// may have more.
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

// absent reports whether a value is left out.
func absent(v reflect.Value, omitZero bool) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Map, reflect.Slice, reflect.Func:
		return v.IsNil()
	case reflect.String:
		return v.Len() == 0
	}
	return (omitZero || v.Type() == timeType) && v.IsZero()
}

// asError makes an error of a text.
func asError(text string) error { return errors.New(text) }
