// Package mergepatch computes JSON merge patches (RFC 7386) between two states of an object.
package mergepatch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fields returns the JSON fields of o. Numbers are decoded as json.Number, since a float64 cannot
// represent every int64.
func Fields(o any) (map[string]any, error) {
	body, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return Decode(body)
}

// Decode is like [Fields] for an encoded object.
func Decode(body []byte) (map[string]any, error) {
	var fields map[string]any
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(&fields); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	return fields, nil
}

// Between returns the merge patch from before to after, two states of a Go value of type typ. If shared
// is true, others may add entries to its maps: if a map disappears, as an empty map with omitempty does,
// the patch sets each of its entries to null instead of the map itself. If nothing was set in before,
// the patch contains all of after; zeros reports whether this added zero values that are also in before.
// Fields for which kept returns false are not added, because they may be zero only in before. kept takes a
// path such as "spec.replicas", in which the keys of Go maps are skipped; if it is nil, all are added.
func Between(before, after map[string]any, typ reflect.Type, shared bool, kept func(path string) bool) (patch map[string]any, zeros bool) {
	return between(before, after, typ, shared, "", kept)
}

func between(before, after map[string]any, typ reflect.Type, shared bool, path string, kept func(path string) bool) (patch map[string]any, zeros bool) {
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
		case value == nil && old != nil: // already handled by the loop above
		case isObject && wasObject:
			inner, innerZeros := between(oldWithin, within, typeOf(typ, name), shared, join(path, typ, name), kept)
			if len(inner) > 0 {
				patch[name] = inner
			} else {
				same[name] = value
			}
			zeros = zeros || innerZeros
		case !reflect.DeepEqual(old, value): // null is equivalent to a missing field
			patch[name] = value
		default:
			same[name] = value
		}
	}
	if len(patch) == 0 || !isZero(before) {
		return patch, zeros
	}
	for name, value := range same {
		if kept == nil || kept(join(path, typ, name)) {
			patch[name], zeros = value, true
		}
	}
	return patch, zeros
}

// join returns the path of the member name in a value of type typ at path.
func join(path string, typ reflect.Type, name string) string {
	switch {
	case typ != nil && typ.Kind() == reflect.Map:
		return path
	case path == "":
		return name
	}
	return path + "." + name
}

// gone returns the patch for a field that disappears: null, or a null for each entry of a map.
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

// typeOf returns the type of the JSON member name in a value of type typ, or nil if it is unknown.
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

// field returns the type of the field with the given JSON name in a struct or pointer to a struct, or
// nil.
func field(typ reflect.Type, name string) reflect.Type {
	switch {
	case typ == nil:
		return nil
	case name == "metadata" && typ.Implements(objectType): // also for objects without Go fields
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
			return f.Type // this field shadows embedded ones
		}
	}
	for _, e := range embedded {
		if within := field(e, name); within != nil {
			return within
		}
	}
	return nil
}

// isZero reports whether a JSON value encodes a zero value.
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

// Lists returns the paths of the lists that a patch to before changes, such as "metadata.finalizers". A
// list in a patch replaces the whole list, and null removes it.
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

// Contended reports whether a patch replaces a list written by several controllers, namely the
// finalizers or the owner references. A patch based on an outdated state would drop entries added by
// others.
func Contended(patch map[string]any) bool {
	metadata, _ := patch["metadata"].(map[string]any)
	_, finalizers := metadata["finalizers"]
	_, owners := metadata["ownerReferences"]
	return finalizers || owners
}

// Carry adds a resource version to a patch, so that it fails with a conflict if the object has a
// different version.
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
