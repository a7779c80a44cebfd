package protobuf

import (
	"reflect"
	"sync"
)

// Unmarshaler is a type with the generated method that reads it.
type Unmarshaler interface{ Unmarshal(data []byte) error }

// Obstacle returns why a type cannot be read from protobuf, or "".
func Obstacle(t reflect.Type) string {
	if !reflect.PointerTo(t).Implements(reflect.TypeFor[Unmarshaler]()) {
		return "it has no Unmarshal method"
	}
	if ContainsItself(t) {
		return "it contains itself"
	}
	return ""
}

// ContainsItself reports whether a value of t can nest without end.
func ContainsItself(t reflect.Type) bool {
	if known, ok := recursive.Load(t); ok {
		return known.(bool)
	}
	is := isWithin(t, nil)
	recursive.Store(t, is)
	return is
}

// recursive says of all types that were asked for whether they contain themselves, bool by reflect.Type.
var recursive sync.Map

// isWithin is ContainsItself; path holds the struct types on the way to t.
func isWithin(t reflect.Type, path []reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return isWithin(t.Elem(), path)
	case reflect.Struct:
		for _, p := range path {
			if p == t {
				return true
			}
		}
		path = append(path, t)
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() && isWithin(f.Type, path) {
				return true
			}
		}
	}
	return false
}
