package units

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"time"
)

// Unmarshal decodes JSON written by [Marshal] into the value that v points to. It ignores unknown fields
// and leaves missing ones unchanged. It returns an error if a value does not fit its type.
func Unmarshal(data []byte, v any) error {
	to := reflect.ValueOf(v)
	if to.Kind() != reflect.Pointer || to.IsNil() {
		return fmt.Errorf("cannot unmarshal into %T: want a pointer", v)
	}
	return read(data, to.Elem())
}

func read(data []byte, to reflect.Value) error {
	data = bytes.TrimSpace(data)
	if string(data) == "null" {
		return nil
	}
	switch t := to.Type(); {
	case t == durationType:
		return readDuration(data, to)
	case t == errorType:
		return readText(data, func(text string) { to.Set(reflect.ValueOf(asError(text))) })
	case named(t):
		return readText(data, func(text string) { to.Set(valueNamed(t, text)) })
	case t == timeType, t == rawType:
		return json.Unmarshal(data, to.Addr().Interface())
	}
	switch to.Kind() {
	case reflect.Pointer:
		if to.IsNil() {
			to.Set(reflect.New(to.Type().Elem()))
		}
		return read(data, to.Elem())
	case reflect.Struct:
		return readStruct(data, to)
	case reflect.Map:
		return readMap(data, to)
	case reflect.Slice:
		return readList(data, to)
	}
	return json.Unmarshal(data, to.Addr().Interface())
}

func readText(data []byte, take func(string)) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	take(text)
	return nil
}

// readDuration decodes a duration in seconds.
func readDuration(data []byte, to reflect.Value) error {
	var seconds float64
	if err := json.Unmarshal(data, &seconds); err != nil {
		return err
	}
	ns := math.Round(seconds * float64(time.Second))
	if math.Abs(ns) >= math.MaxInt64 {
		return fmt.Errorf("%v seconds overflow a time.Duration", seconds)
	}
	to.SetInt(int64(ns))
	return nil
}

func readStruct(data []byte, to reflect.Value) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return err
	}
	for _, f := range fieldsOf(to.Type()) {
		if value, ok := members[f.name]; ok {
			if err := read(value, to.FieldByIndex(f.index)); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
		}
	}
	return nil
}

func readMap(data []byte, to reflect.Value) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return err
	}
	t := to.Type()
	if t.Key().Kind() != reflect.String {
		return fmt.Errorf("cannot unmarshal %v: its keys are not strings", t)
	}
	all := reflect.MakeMapWithSize(t, len(members))
	for name, data := range members {
		value := reflect.New(t.Elem()).Elem()
		if err := read(data, value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all.SetMapIndex(reflect.ValueOf(name).Convert(t.Key()), value)
	}
	to.Set(all)
	return nil
}

func readList(data []byte, to reflect.Value) error {
	var items []json.RawMessage
	if err := json.Unmarshal(data, &items); err != nil {
		return err
	}
	all := reflect.MakeSlice(to.Type(), len(items), len(items))
	for n, item := range items {
		if err := read(item, all.Index(n)); err != nil {
			return fmt.Errorf("[%d]: %w", n, err)
		}
	}
	to.Set(all)
	return nil
}
