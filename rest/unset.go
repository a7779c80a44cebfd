package rest

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/millrace-dev/millrace/object"
)

// applied returns the body for a server-side apply of obj: its JSON encoding body without unset fields that
// Go encodes nevertheless. These are nulls, which encode nil and zero times, and structs tagged omitempty,
// which encoding/json never considers empty. Such a field is dropped if it has the zero value or if nothing
// is left in it.
//
// Everything else is sent, because zero values may be intentional in fields without omitempty, in lists and
// maps, and behind pointers.
func applied(obj object.Object, body []byte) ([]byte, error) {
	if marshalsItself(reflect.TypeOf(obj)) {
		return body, nil // for example an unstructured object, in which every field was set on purpose
	}
	var fields map[string]any
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber() // a float64 cannot represent every int64
	if err := decoder.Decode(&fields); err != nil {
		return nil, fmt.Errorf("decode the encoded object: %w", err)
	}
	withoutUnset(reflect.ValueOf(obj), fields)
	return json.Marshal(fields)
}

// withoutUnset removes unset fields from v's JSON form.
func withoutUnset(v reflect.Value, form any) {
	if !v.IsValid() || form == nil || marshalsItself(v.Type()) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		withoutUnset(v.Elem(), form)
	case reflect.Struct:
		if fields, ok := form.(map[string]any); ok {
			fieldsWithoutUnset(v, fields)
		}
	case reflect.Slice, reflect.Array:
		if items, ok := form.([]any); ok && len(items) == v.Len() {
			for i, item := range items {
				withoutUnset(v.Index(i), item)
			}
		}
	case reflect.Map:
		if entries, ok := form.(map[string]any); ok && v.Type().Key().Kind() == reflect.String {
			for at := v.MapRange(); at.Next(); {
				withoutUnset(at.Value(), entries[at.Key().String()])
			}
		}
	}
}

// fieldsWithoutUnset is withoutUnset for a struct, including the fields of embedded
// structs. If several fields have the same name, encoding/json writes the outermost one.
func fieldsWithoutUnset(v reflect.Value, fields map[string]any) {
	found := map[string]int{} // depth by name
	for level, depth := []reflect.Value{v}, 0; len(level) > 0; depth++ {
		var deeper []reflect.Value
		for _, v := range level {
			for i := range v.NumField() {
				field := v.Type().Field(i)
				name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
				if field.Anonymous && name == "" {
					if in := reflect.Indirect(v.Field(i)); in.Kind() == reflect.Struct {
						deeper = append(deeper, in)
					}
					continue
				}
				if name == "" {
					name = field.Name
				}
				if at, ok := found[name]; ok && at < depth || !field.IsExported() {
					continue
				}
				found[name] = depth
				fieldWithoutUnset(v.Field(i), fields, name, strings.Contains(options, "omitempty"))
			}
		}
		level = deeper
	}
}

// fieldWithoutUnset is withoutUnset for one struct field.
func fieldWithoutUnset(v reflect.Value, fields map[string]any, name string, omitEmpty bool) {
	form, written := fields[name]
	if !written {
		return
	}
	if unset(v, form, omitEmpty) {
		delete(fields, name)
		return
	}
	withoutUnset(v, form)
	if inner, ok := form.(map[string]any); ok && len(inner) == 0 && v.Kind() == reflect.Struct && omitEmpty {
		delete(fields, name)
	}
}

// unset reports whether an encoded field is unset.
func unset(v reflect.Value, form any, omitEmpty bool) bool {
	if form == nil && v.CanAddr() {
		if z, ok := v.Addr().Interface().(interface{ IsZero() bool }); ok && z.IsZero() {
			return true // a zero time, possibly inside another type
		}
	}
	if form == nil {
		return v.IsZero()
	}
	return omitEmpty && v.Kind() == reflect.Struct && v.IsZero()
}

// marshalsItself reports whether t has its own JSON encoding.
func marshalsItself(t reflect.Type) bool {
	if t.Kind() == reflect.Interface {
		return false
	}
	if t.Kind() != reflect.Pointer {
		t = reflect.PointerTo(t)
	}
	return t.Implements(reflect.TypeFor[json.Marshaler]()) || t.Implements(reflect.TypeFor[encoding.TextMarshaler]())
}
