package units

import (
	"reflect"
	"time"
)

// Shift adds the duration by to every non-zero time in the value that v points to. It does not descend
// into interfaces and maps.
func Shift(v any, by time.Duration) {
	if by != 0 {
		shift(reflect.ValueOf(v).Elem(), by)
	}
}

func shift(v reflect.Value, by time.Duration) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			shift(v.Elem(), by)
		}
	case reflect.Slice:
		for n := range v.Len() {
			shift(v.Index(n), by)
		}
	case reflect.Struct:
		if at, ok := v.Addr().Interface().(*time.Time); ok {
			if !at.IsZero() {
				*at = at.Add(by)
			}
			return
		}
		for _, f := range fieldsOf(v.Type()) {
			shift(v.FieldByIndex(f.index), by)
		}
	}
}
