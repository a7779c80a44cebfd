// Package selection selects object fields. A decoder walks the selection's tree in step with the object;
// alternatively, the tree can be used to prune an object after decoding. Paths can be checked against a
// Go type. Trees are immutable.
package selection

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/millrace-dev/millrace/wire/internal/fault"
)

// Tree is a tree of selected fields. A decoder walks down the tree in step with the object. A nil
// Tree selects the whole value. Trees are immutable.
//
//	sub, kept := s.Field("spec") // at the field "spec"
//	if !kept { skip the value }
//	...                          // else decode what sub wants of it
//
// Pointers, lists and maps are not levels of the tree: a list's selection applies to its elements.
// Inlined structs are not levels either; they have the outer struct's selection.
type Tree struct {
	fields map[string]*Tree // by JSON name; a dropped field has a tree that selects nothing
	others bool             // whether fields that are missing from the tree are selected
}

// identity lists the paths that every object keeps.
var identity = [...]string{"apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.uid", "metadata.resourceVersion"}

// IsIdentity reports whether every object keeps the field at path.
func IsIdentity(path string) bool { return slices.Contains(identity[:], path) }

// Only selects the identity and the fields at the given paths.
func Only(paths []string) *Tree { return newSelection(paths, true) }

// Without selects all fields except those at the given paths. The identity is always selected. It
// returns nil if there are no paths.
func Without(paths []string) *Tree {
	if len(paths) == 0 {
		return nil
	}
	return newSelection(paths, false)
}

func newSelection(paths []string, only bool) *Tree {
	s := &Tree{fields: make(map[string]*Tree), others: !only}
	for _, path := range paths {
		if only {
			s.set(strings.Split(path, "."), nil)
		} else {
			s.set(strings.Split(path, "."), &Tree{fields: make(map[string]*Tree)})
		}
	}
	for _, path := range identity {
		s.set(strings.Split(path, "."), nil)
	}
	return s
}

// KeepsValues reports whether a value without fields is selected.
func (s *Tree) KeepsValues() bool { return s == nil || s.others }

// set makes end the selection at path, unless the whole value at path is already selected.
func (s *Tree) set(path []string, end *Tree) {
	name := path[0]
	sub, named := s.fields[name]
	switch {
	case end == nil && (named && sub == nil || !named && s.others):
	case len(path) == 1 && end == nil && s.others:
		delete(s.fields, name)
	case len(path) == 1:
		s.fields[name] = end
	default:
		if !named {
			sub = &Tree{fields: make(map[string]*Tree), others: s.others}
			s.fields[name] = sub
		}
		sub.set(path[1:], end)
	}
}

// Field returns a field's selection. It returns false if nothing in the field is selected.
func (s *Tree) Field(name string) (sub *Tree, kept bool) {
	if s == nil {
		return nil, true
	}
	sub, named := s.fields[name]
	if !named {
		return nil, s.others
	}
	return sub, sub == nil || sub.others || len(sub.fields) > 0
}

// Of is like Field, but takes a struct field.
func (s *Tree) Of(f reflect.StructField) (sub *Tree, kept bool) {
	name, inlined := jsonName(f)
	if inlined {
		return s, true
	}
	return s.Field(name)
}

// Key returns a string that is the same for equal selections, and empty if s selects everything.
func (s *Tree) Key() string {
	if s == nil {
		return ""
	}
	var b strings.Builder
	b.WriteByte('{')
	for _, name := range slices.Sorted(maps.Keys(s.fields)) {
		b.WriteString(name)
		b.WriteString(s.fields[name].Key())
		b.WriteByte(',')
	}
	if s.others {
		b.WriteByte('*')
	}
	b.WriteByte('}')
	return b.String()
}

// jsonName returns a field's JSON name. inlined indicates that the field has no name because its own
// fields take its place. A field that JSON omits has no name and is not inlined.
func jsonName(f reflect.StructField) (name string, inlined bool) {
	tag := f.Tag.Get("json")
	if tag == "-" {
		return "", false
	}
	name, _, _ = strings.Cut(tag, ",")
	if name != "" {
		return name, false
	}
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if f.Anonymous && t.Kind() == reflect.Struct {
		return "", true
	}
	return f.Name, false
}

// Check fails with ErrFields if t lacks a field at one of the paths.
func Check(paths []string, t reflect.Type) error {
	for _, path := range paths {
		at, way := t, ""
		for name := range strings.SplitSeq(path, ".") {
			fields := FieldsOf(at)
			next, ok := fields[name]
			if !ok {
				return fmt.Errorf("%w: %q of %v: %s", fault.ErrFields, path, t, suggestion(way, name, fields))
			}
			at, way = next, strings.TrimPrefix(way+"."+name, ".")
		}
	}
	return nil
}

// CheckUntyped is like Check, for objects without a Go type.
func CheckUntyped(paths []string) error {
	for _, path := range paths {
		if slices.Contains(strings.Split(path, "."), "") {
			return fmt.Errorf("%w: %q contains an empty name", fault.ErrFields, path)
		}
	}
	return nil
}

// FieldsOf returns the fields below a value of type t, by their JSON names. A type that encodes
// itself, such as a time, has none.
func FieldsOf(t reflect.Type) map[string]reflect.Type {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return FieldsOf(t.Elem())
	case reflect.Struct:
	default:
		return nil
	}
	fields := make(map[string]reflect.Type)
	for i := range t.NumField() {
		f := t.Field(i)
		switch name, inlined := jsonName(f); {
		case inlined:
			maps.Copy(fields, FieldsOf(f.Type))
		case f.IsExported() && name != "":
			fields[name] = f.Type
		}
	}
	return fields
}

// suggestion returns the error text for an unknown field name at way, including the names that do exist.
func suggestion(way, name string, fields map[string]reflect.Type) string {
	where := "it"
	if way != "" {
		where = fmt.Sprintf("%q", way)
	}
	if len(fields) == 0 {
		return where + " has no fields"
	}
	names := slices.Sorted(maps.Keys(fields))
	lower := strings.ToLower(name)
	for _, n := range names {
		l := strings.ToLower(n)
		if lower != "" && (strings.HasPrefix(l, lower) || strings.HasPrefix(lower, l)) {
			return fmt.Sprintf("%s has no %q, did you mean %q?", where, fault.Excerpt(name), n)
		}
	}
	return fmt.Sprintf("%s has no %q, only %s", where, fault.Excerpt(name), strings.Join(names, ", "))
}
