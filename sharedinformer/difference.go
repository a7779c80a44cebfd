package sharedinformer

import (
	"fmt"
	"reflect"
	"sort"
)

// firstDifference finds where two values of one type differ, as a path of
// fields, indices and map keys. An empty and a nil slice or map are the same.
func firstDifference(a, b any) (path string, differ bool) {
	return differenceAt("", reflect.ValueOf(a), reflect.ValueOf(b))
}

func differenceAt(path string, a, b reflect.Value) (string, bool) {
	if a.IsValid() != b.IsValid() {
		return path, true
	}
	if !a.IsValid() {
		return "", false
	}
	if a.Type() != b.Type() {
		return path, true
	}
	switch a.Kind() {
	case reflect.Pointer, reflect.Interface:
		if a.IsNil() || b.IsNil() {
			return path, a.IsNil() != b.IsNil()
		}
		if a.Kind() == reflect.Pointer && a.Pointer() == b.Pointer() {
			return "", false
		}
		return differenceAt(path, a.Elem(), b.Elem())
	case reflect.Struct:
		for i := range a.NumField() {
			if at, differ := differenceAt(path+"."+a.Type().Field(i).Name, a.Field(i), b.Field(i)); differ {
				return at, true
			}
		}
		return "", false
	case reflect.Slice, reflect.Array:
		if a.Len() != b.Len() {
			return path, true
		}
		for i := range a.Len() {
			if at, differ := differenceAt(fmt.Sprintf("%s[%d]", path, i), a.Index(i), b.Index(i)); differ {
				return at, true
			}
		}
		return "", false
	case reflect.Map:
		return mapDifference(path, a, b)
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return path, a.Pointer() != b.Pointer()
	}
	return path, !a.Equal(b)
}

// mapDifference looks at the keys of both in order, so that its answer does
// not depend on chance.
func mapDifference(path string, a, b reflect.Value) (string, bool) {
	keys := a.MapKeys()
	for _, key := range b.MapKeys() {
		if !a.MapIndex(key).IsValid() {
			keys = append(keys, key)
		}
	}
	sort.Slice(keys, func(i, j int) bool { return fmt.Sprint(keys[i]) < fmt.Sprint(keys[j]) })
	for _, key := range keys {
		if at, differ := differenceAt(fmt.Sprintf("%s[%v]", path, key), a.MapIndex(key), b.MapIndex(key)); differ {
			return at, true
		}
	}
	return "", false
}
