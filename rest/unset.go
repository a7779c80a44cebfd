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

// applied returns what a server-side apply of obj sends, of its JSON form: without the
// fields that nobody has set, and that Go writes all the same. There are two kinds of
// them: null, as which a nil or a time that is zero is written, and a struct whose tag says
// omitempty, which encoding/json never finds empty. Such a field is left out where it has
// its zero value, or where nothing is left in it.
//
// All else is sent. A zero without omitempty is what the type insists on, so that somebody
// may mean it; so is what a list or a map has, and what a pointer points to.
func applied(obj object.Object, body []byte) ([]byte, error) {
	if marshalsItself(reflect.TypeOf(obj)) {
		return body, nil // such as an unstructured one, which has what was put into it
	}
	var fields map[string]any
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber() // an int64 has no place in a float64
	if err := decoder.Decode(&fields); err != nil {
		return nil, fmt.Errorf("read what was encoded: %w", err)
	}
	withoutUnset(reflect.ValueOf(obj), fields)
	return json.Marshal(fields)
}

// withoutUnset takes what is not set out of the JSON form of a value.
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

// fieldsWithoutUnset is withoutUnset for a struct, whose fields may be those of another one
// that it is embedded in. Of several with one name, encoding/json writes the outermost.
func fieldsWithoutUnset(v reflect.Value, fields map[string]any) {
	found := map[string]int{} // at which depth, by name
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

// fieldWithoutUnset is withoutUnset for one field of a struct.
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

// unset reports whether a field that is written has not been set.
func unset(v reflect.Value, form any, omitEmpty bool) bool {
	if form == nil && v.CanAddr() {
		if z, ok := v.Addr().Interface().(interface{ IsZero() bool }); ok && z.IsZero() {
			return true // a time of nothing that has a place
		}
	}
	if form == nil {
		return v.IsZero()
	}
	return omitEmpty && v.Kind() == reflect.Struct && v.IsZero()
}

// marshalsItself reports whether the JSON form of a type is its own affair.
func marshalsItself(t reflect.Type) bool {
	if t.Kind() == reflect.Interface {
		return false
	}
	if t.Kind() != reflect.Pointer {
		t = reflect.PointerTo(t)
	}
	return t.Implements(reflect.TypeFor[json.Marshaler]()) || t.Implements(reflect.TypeFor[encoding.TextMarshaler]())
}
