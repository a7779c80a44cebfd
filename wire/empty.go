package wire

import (
	"bytes"
	stdjson "encoding/json"
	"reflect"
	"strings"

	"github.com/millrace-dev/millrace/object"
)

// withEmpty returns o's JSON encoding raw with the empty lists and maps that it omits, because their fields are
// tagged omitempty. In some custom resources, an empty list means something else than none.
func withEmpty(o object.Object, raw []byte) ([]byte, error) {
	var tree any
	decoder := stdjson.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber() // a float64 cannot represent every int64
	if err := decoder.Decode(&tree); err != nil {
		return nil, err
	}
	addEmpty(reflect.ValueOf(o), tree)
	return stdjson.Marshal(tree)
}

// addEmpty adds v's empty lists and maps to its JSON form. A form of another shape belongs to a type with its own
// encoding, and is left alone.
func addEmpty(v reflect.Value, form any) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		addEmpty(v.Elem(), form)
	case reflect.Struct:
		if fields, ok := form.(map[string]any); ok {
			addEmptyFields(v, fields)
		}
	case reflect.Slice, reflect.Array:
		if items, ok := form.([]any); ok && len(items) == v.Len() {
			for i, item := range items {
				addEmpty(v.Index(i), item)
			}
		}
	case reflect.Map:
		if entries, ok := form.(map[string]any); ok && v.Type().Key().Kind() == reflect.String {
			for at := v.MapRange(); at.Next(); {
				addEmpty(at.Value(), entries[at.Key().String()])
			}
		}
	}
}

func addEmptyFields(v reflect.Value, fields map[string]any) {
	for i := range v.NumField() {
		field, value := v.Type().Field(i), v.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous && name == "":
			addEmpty(value, fields)
			continue
		case !field.IsExported() || name == "-":
			continue
		case name == "":
			name = field.Name
		}
		form, written := fields[name]
		switch kind := value.Kind(); {
		case written:
			addEmpty(value, form)
		case kind == reflect.Slice && !value.IsNil() && value.Len() == 0 && value.Type().Elem().Kind() != reflect.Uint8:
			fields[name] = []any{}
		case kind == reflect.Map && !value.IsNil() && value.Len() == 0:
			fields[name] = map[string]any{}
		}
	}
}
