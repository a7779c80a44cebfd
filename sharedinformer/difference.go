package sharedinformer

import (
	"fmt"
	"reflect"
	"sort"
)

// difference describes where two values differ.
type difference struct {
	path string // path of fields, indices and map keys

	// part is the address of the struct, slice elements or map in the second value that contains the
	// difference. Values that share it report the same address for as long as it is reachable.
	part uintptr
}

// in records v as the pointer to the value that contains the difference, unless a more deeply nested one has
// already been recorded.
func (d difference) in(v reflect.Value) difference {
	if d.part == 0 {
		d.part = v.Pointer()
	}
	return d
}

// firstDifference returns the first difference between two values of the same type. Empty and nil slices (or
// maps) are equal.
func firstDifference(a, b any) (d difference, differ bool) {
	return differenceAt("", reflect.ValueOf(a), reflect.ValueOf(b))
}

func differenceAt(path string, a, b reflect.Value) (difference, bool) {
	here := difference{path: path}
	if a.IsValid() != b.IsValid() {
		return here, true
	}
	if !a.IsValid() {
		return here, false
	}
	if a.Type() != b.Type() {
		return here, true
	}
	switch a.Kind() {
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() || a.Pointer() == b.Pointer() {
			return here, a.IsNil() != b.IsNil()
		}
		d, differ := differenceAt(path, a.Elem(), b.Elem())
		return d.in(b), differ
	case reflect.Interface:
		return differenceAt(path, a.Elem(), b.Elem())
	case reflect.Struct:
		for i := range a.NumField() {
			if at, differ := differenceAt(path+"."+a.Type().Field(i).Name, a.Field(i), b.Field(i)); differ {
				return at, true
			}
		}
		return here, false
	case reflect.Slice:
		d, differ := elementDifference(path, a, b)
		if a.Len() == b.Len() {
			d = d.in(b)
		}
		return d, differ
	case reflect.Array:
		return elementDifference(path, a, b)
	case reflect.Map:
		d, differ := mapDifference(path, a, b)
		return d.in(b), differ
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return here, a.Pointer() != b.Pointer()
	}
	return here, !a.Equal(b)
}

func elementDifference(path string, a, b reflect.Value) (difference, bool) {
	if a.Len() != b.Len() {
		return difference{path: path}, true
	}
	for i := range a.Len() {
		if at, differ := differenceAt(fmt.Sprintf("%s[%d]", path, i), a.Index(i), b.Index(i)); differ {
			return at, true
		}
	}
	return difference{}, false
}

// mapDifference compares entries in key order, to make the result deterministic.
func mapDifference(path string, a, b reflect.Value) (difference, bool) {
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
	return difference{}, false
}
