package selection

import (
	"reflect"
)

// Prune sets v's unselected fields to zero. v must be settable, unless it is a pointer.
func Prune(v reflect.Value, s *Tree) {
	if s == nil {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			Prune(v.Elem(), s)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			Prune(v.Index(i), s)
		}
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			value := reflect.New(v.Type().Elem()).Elem()
			value.Set(entries.Value())
			Prune(value, s)
			v.SetMapIndex(entries.Key(), value)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f, field := v.Type().Field(i), v.Field(i)
			embedded := f.Anonymous && field.Kind() == reflect.Struct // its exported fields can be set
			if !field.CanSet() && !embedded {
				continue
			}
			switch sub, kept := s.Of(f); {
			case kept:
				Prune(field, sub)
			case field.CanSet():
				field.SetZero()
			default:
				Prune(field, &Tree{})
			}
		}
	}
}

// PruneUntyped is like Prune, but for JSON values without a Go type. It reports whether v itself is
// selected, since a value that is neither an object nor a list has no fields to select.
func PruneUntyped(v any, s *Tree) bool {
	if s == nil {
		return true
	}
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if sub, kept := s.Field(name); !kept || !PruneUntyped(value, sub) {
				delete(v, name)
			}
		}
		return true
	case []any:
		for i, element := range v {
			if !PruneUntyped(element, s) {
				v[i] = nil // lists keep their lengths
			}
		}
		return true
	}
	return s.others
}
