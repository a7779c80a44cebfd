package wire

import (
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// project takes from an object what is not wanted of it. It is the definition
// of what decoders leave out. No part of the object may be shared: it is changed.
func (t *target[T]) project(obj T) {
	switch u, ok := any(obj).(*unstructured.Unstructured); {
	case t.fields == nil:
	case ok:
		pruneUntyped(u.Object, t.fields)
	default:
		prune(reflect.ValueOf(obj), t.fields)
	}
}

// prune sets to zero what s does not want of v. v can be set, unless it is a
// pointer.
func prune(v reflect.Value, s *selection) {
	if s == nil {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			prune(v.Elem(), s)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			prune(v.Index(i), s)
		}
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			value := reflect.New(v.Type().Elem()).Elem()
			value.Set(entries.Value())
			prune(value, s)
			v.SetMapIndex(entries.Key(), value)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if !v.Field(i).CanSet() {
				continue
			}
			if sub, kept := s.of(v.Type().Field(i)); kept {
				prune(v.Field(i), sub)
			} else {
				v.Field(i).SetZero()
			}
		}
	}
}

// pruneUntyped is prune for JSON without a type. It reports whether v itself is
// wanted: what is neither an object nor a list has no field that could be.
func pruneUntyped(v any, s *selection) bool {
	if s == nil {
		return true
	}
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if sub, kept := s.field(name); !kept || !pruneUntyped(value, sub) {
				delete(v, name)
			}
		}
		return true
	case []any:
		for i, element := range v {
			if !pruneUntyped(element, s) {
				v[i] = nil // lists keep their lengths
			}
		}
		return true
	}
	return s.others
}
