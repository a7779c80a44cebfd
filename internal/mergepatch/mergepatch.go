// Package mergepatch makes JSON merge patches (RFC 7386) of two states of an object.
package mergepatch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fields returns an object as JSON has it. Its numbers are json.Number: an int64 has no
// place in a float64.
func Fields(o any) (map[string]any, error) {
	body, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return Decode(body)
}

// Decode is Fields of an object that has been encoded.
func Decode(body []byte) (map[string]any, error) {
	var fields map[string]any
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(&fields); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	return fields, nil
}

// Between is what makes after of before, two states of what in Go is of type typ: null for
// what goes, the value for what comes or changes, and the same for what is within. Where others
// may have added entries to maps, those are shared: of one that goes, as one does that is empty
// and whose tag says omitempty, it has null for each entry. Where nothing was set before, it
// has all of after; zeros says whether that was so and there was a zero value which is there
// before and after.
func Between(before, after map[string]any, typ reflect.Type, shared bool) (patch map[string]any, zeros bool) {
	patch = make(map[string]any)
	for name, old := range before {
		if value, stays := after[name]; !stays || value == nil && old != nil {
			patch[name] = nil
			if shared {
				patch[name] = gone(old, field(typ, name))
			}
		}
	}
	same := make(map[string]any)
	for name, value := range after {
		old := before[name]
		within, isObject := value.(map[string]any)
		oldWithin, wasObject := old.(map[string]any)
		switch {
		case value == nil && old != nil: // it is gone
		case isObject && wasObject:
			inner, innerZeros := Between(oldWithin, within, typeOf(typ, name), shared)
			if len(inner) > 0 {
				patch[name] = inner
			} else {
				same[name] = value
			}
			zeros = zeros || innerZeros
		case !reflect.DeepEqual(old, value): // what is null is as good as missing
			patch[name] = value
		default:
			same[name] = value
		}
	}
	if len(patch) == 0 || len(same) == 0 || !isZero(before) {
		return patch, zeros
	}
	maps.Copy(patch, same)
	return patch, true
}

// gone is what a patch has for a field of a struct that goes.
func gone(old any, field reflect.Type) any {
	entries, _ := old.(map[string]any)
	if len(entries) == 0 || field == nil || field.Kind() != reflect.Map {
		return nil
	}
	each := make(map[string]any, len(entries))
	for name := range entries {
		each[name] = nil
	}
	return each
}

// typeOf returns the type of what JSON calls name in a value of type typ; nil if that is not
// known.
func typeOf(typ reflect.Type, name string) reflect.Type {
	if typ != nil && typ.Kind() == reflect.Map {
		return typ.Elem()
	}
	return field(typ, name)
}

var (
	objectType    = reflect.TypeFor[metav1.Object]()
	marshalerType = reflect.TypeFor[json.Marshaler]()
)

// field returns the type of the field that JSON calls name of a struct or a pointer to one;
// nil for all else.
func field(typ reflect.Type, name string) reflect.Type {
	switch {
	case typ == nil:
		return nil
	case name == "metadata" && typ.Implements(objectType): // also of what has no fields in Go
		return reflect.TypeFor[metav1.ObjectMeta]()
	case typ.Kind() == reflect.Pointer:
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct || reflect.PointerTo(typ).Implements(marshalerType) {
		return nil
	}
	var embedded []reflect.Type
	for n := range typ.NumField() {
		f := typ.Field(n)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case tag == "-":
		case tag == "" && f.Anonymous && f.Type != typ && f.Type != reflect.PointerTo(typ):
			embedded = append(embedded, f.Type)
		case tag == name, tag == "" && f.Name == name && f.IsExported():
			return f.Type // which hides those that are embedded
		}
	}
	for _, e := range embedded {
		if within := field(e, name); within != nil {
			return within
		}
	}
	return nil
}

// isZero reports whether a value in JSON is what Go writes for a zero value.
func isZero(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		for _, within := range v {
			if !isZero(within) {
				return false
			}
		}
		return true
	case []any:
		return len(v) == 0
	case json.Number:
		return v == "0"
	}
	return value == nil || value == "" || value == false
}

// Lists yields the paths of the lists in a patch of before, such as "metadata.finalizers":
// each replaces the one that is there, and null for a list takes it away.
func Lists(patch, before map[string]any) (paths []string) {
	for name, value := range patch {
		_, was := before[name].([]any)
		switch v := value.(type) {
		case []any:
			paths = append(paths, name)
		case map[string]any:
			old, _ := before[name].(map[string]any)
			for _, path := range Lists(v, old) {
				paths = append(paths, name+"."+path)
			}
		case nil:
			if was {
				paths = append(paths, name)
			}
		}
	}
	return paths
}

// Contended reports whether a patch replaces a list to which several controllers add: the
// finalizers or the owner references. One that was made of an old state would drop the entries of others.
func Contended(patch map[string]any) bool {
	metadata, _ := patch["metadata"].(map[string]any)
	_, finalizers := metadata["finalizers"]
	_, owners := metadata["ownerReferences"]
	return finalizers || owners
}

// Carry puts the resource version into a patch, so that it fails with a conflict where
// the object has another one.
func Carry(patch map[string]any, version string) {
	if version == "" {
		return
	}
	metadata, ok := patch["metadata"].(map[string]any)
	if !ok {
		metadata = make(map[string]any)
		patch["metadata"] = metadata
	}
	metadata["resourceVersion"] = version
}
