package units

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"
)

// Marshal encodes v as JSON. It returns an error for values that JSON cannot represent, such as
// functions.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	err := write(&b, reflect.ValueOf(v))
	return b.Bytes(), err
}

func write(b *bytes.Buffer, v reflect.Value) error {
	if !v.IsValid() {
		b.WriteString("null")
		return nil
	}
	switch t := v.Type(); {
	case t == durationType:
		b.Write(strconv.AppendFloat(nil, time.Duration(v.Int()).Seconds(), 'f', -1, 64))
		return nil
	case t == timeType, t == rawType:
		return writeJSON(b, v.Interface())
	case t == errorType && !v.IsNil():
		return writeJSON(b, v.Interface().(error).Error())
	case named(t):
		text, err := v.Interface().(encoding.TextMarshaler).MarshalText()
		if err != nil {
			return fmt.Errorf("name of a %v: %w", t, err)
		}
		return writeJSON(b, string(text))
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return write(b, v.Elem())
	case reflect.Struct:
		return writeStruct(b, v)
	case reflect.Map:
		return writeMap(b, v)
	case reflect.Slice, reflect.Array:
		return writeList(b, v)
	case reflect.Func, reflect.Chan, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return fmt.Errorf("cannot represent %v in JSON", v.Type())
	}
	return writeJSON(b, v.Interface())
}

func writeJSON(b *bytes.Buffer, v any) error {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	b.Truncate(b.Len() - 1) // drop the newline
	return nil
}

func writeStruct(b *bytes.Buffer, v reflect.Value) error {
	b.WriteByte('{')
	first := true
	for _, f := range fieldsOf(v.Type()) {
		value := v.FieldByIndex(f.index)
		if absent(value, f.omitZero) {
			continue
		}
		if err := writeMember(b, &first, f.name, value); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}

func writeMember(b *bytes.Buffer, first *bool, name string, value reflect.Value) error {
	if !*first {
		b.WriteByte(',')
	}
	*first = false
	if err := writeJSON(b, name); err != nil {
		return err
	}
	b.WriteByte(':')
	if err := write(b, value); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func writeMap(b *bytes.Buffer, v reflect.Value) error {
	type member struct {
		name  string
		value reflect.Value
	}
	var all []member
	for key, value := range v.Seq2() {
		all = append(all, member{fmt.Sprint(key), value})
	}
	slices.SortFunc(all, func(a, b member) int { return cmp.Compare(a.name, b.name) })
	b.WriteByte('{')
	first := true
	for _, m := range all {
		if err := writeMember(b, &first, m.name, m.value); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}

func writeList(b *bytes.Buffer, v reflect.Value) error {
	b.WriteByte('[')
	for n := range v.Len() {
		if n > 0 {
			b.WriteByte(',')
		}
		if err := write(b, v.Index(n)); err != nil {
			return fmt.Errorf("[%d]: %w", n, err)
		}
	}
	b.WriteByte(']')
	return nil
}
