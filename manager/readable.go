package manager

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// readable is the human-readable form of a value, ready to be written as JSON or HTML: nil, string,
// json.Number, bool, a list, or members. It is the same as the value's JSON, except that durations have
// units, errors are text and zero times are omitted.
type readable = any

// members is an object as an ordered list of its members.
type members []member

type member struct {
	name  string
	value readable
}

func (m members) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for n, one := range m {
		if n > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(one.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(one.value)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// read converts a value to its readable form.
func read(v reflect.Value) (readable, error) {
	switch {
	case !v.IsValid():
		return nil, nil
	case v.Type() == reflect.TypeFor[time.Duration]():
		return time.Duration(v.Int()).String(), nil
	case (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) && v.IsNil():
		return nil, nil
	case v.Kind() == reflect.Interface:
		return read(v.Elem())
	}
	if own, ok := v.Interface().(json.Marshaler); ok {
		return reread(own)
	}
	if own, ok := v.Interface().(encoding.TextMarshaler); ok {
		text, err := own.MarshalText()
		return string(text), err
	}
	if err, ok := v.Interface().(error); ok {
		return err.Error(), nil
	}
	switch v.Kind() {
	case reflect.Pointer:
		return read(v.Elem())
	case reflect.Struct:
		return readStruct(v)
	case reflect.Map:
		return readMap(v)
	case reflect.Slice, reflect.Array:
		return readList(v)
	}
	return reread(v.Interface())
}

// reread converts a value via JSON.
func reread(value any) (readable, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var generic any
	if err := d.Decode(&generic); err != nil {
		return nil, err
	}
	if object, ok := generic.(map[string]any); ok {
		return readMap(reflect.ValueOf(object))
	}
	return generic, nil
}

func readStruct(v reflect.Value) (readable, error) {
	all := members{}
	for n := range v.NumField() {
		field, value := v.Type().Field(n), v.Field(n)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		omit := field.Type == reflect.TypeFor[time.Time]() || strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
		if !field.IsExported() || name == "-" || omit && value.IsZero() {
			continue
		}
		one, err := read(value)
		if err != nil {
			return nil, err
		}
		if within, ok := one.(members); ok && field.Anonymous && name == "" {
			all = append(all, within...)
			continue
		}
		all = append(all, member{cmp.Or(name, field.Name), one})
	}
	return all, nil
}

func readMap(v reflect.Value) (readable, error) {
	all := members{}
	for key, value := range v.Seq2() {
		one, err := read(value)
		if err != nil {
			return nil, err
		}
		all = append(all, member{fmt.Sprint(key), one})
	}
	slices.SortFunc(all, func(a, b member) int { return cmp.Compare(a.name, b.name) })
	return all, nil
}

func readList(v reflect.Value) (readable, error) {
	if v.Kind() == reflect.Slice && v.IsNil() {
		return nil, nil
	}
	all := make([]readable, 0, v.Len())
	for n := range v.Len() {
		one, err := read(v.Index(n))
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}
