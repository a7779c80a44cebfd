// Package guard limits the memory of a decoded object. It also detects input that must not reach
// apimachinery's own code, which would run for hours or allocate gigabytes: absurd quantities, and
// elements that are far larger in memory than in their encoding. A Guard describes where values of a Go
// type may contain such input. Finding it is up to the packages for the encodings.
package guard

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/wire/internal/fault"
)

// Guard describes how the reference decodes a value of a Go type: where it encounters quantities,
// and where it allocates memory. Its field names are those that JSON and CBOR share. Other strings are
// not checked, because names and hashes may also look like absurd numbers. A nil Guard means that the
// value does not need checking.
type Guard struct {
	Form     Form
	Size     int64    // size in bytes of a pointer's target, a list's element, or the structs that a struct embeds by pointer
	MapBytes MapBytes // of a map
	Elem     *Guard   // guard of a pointer's target, or of the elements of a list or map

	names        map[string]field // a struct's fields
	alternatives []*Guard         // an Unmarshaler sets one of them
}

// field is a field of a struct or of a struct that it embeds. If several fields have the same name, it is the
// one that encoding/json sets.
type field struct {
	guard  *Guard // nil if the value does not need checking, or if no field is set
	depth  int    // of the embedding
	tagged bool   // the name comes from a tag
}

// hides reports whether encoding/json sets f rather than other, which has the same name.
func (f field) hides(other field) bool {
	return f.depth < other.depth || f.depth == other.depth && f.tagged && !other.tagged
}

// Form is the kind of Go value that the input is decoded into.
type Form uint8

const (
	Plain    Form = iota
	Quantity      // a resource.Quantity
	Pointer
	List
	Map
	Struct
	Unmarshaler // a type that decodes itself; see Guard.Alternative
	Raw         // a type that keeps JSON as is; CBOR is first decoded as Any
	Any         // a value without a Go type
)

// Untyped guards objects without a Go type.
var Untyped = &Guard{Form: Any}

// guards caches the results of Of, a *Guard for each reflect.Type that a program decodes. They are
// immutable.
var guards sync.Map

// Of returns t's guard. It is shared by all callers.
func Of(t reflect.Type) *Guard {
	if g, ok := guards.Load(t); ok {
		return g.(*Guard)
	}
	known := make(map[reflect.Type]*Guard)
	g := newGuard(t, known)
	if matters := prune(known); !matters[g] {
		g = nil
	}
	shared, _ := guards.LoadOrStore(t, g)
	return shared.(*Guard)
}

// prune removes the guards for values that do not need checking, such as numbers, and returns the rest.
// Because types may be recursive, it first finds the guards that are needed.
func prune(all map[reflect.Type]*Guard) (matters map[*Guard]bool) {
	matters = make(map[*Guard]bool)
	for grown := true; grown; {
		grown = false
		for _, g := range all {
			if !matters[g] && (g.matters() || g.leadsTo(matters)) {
				matters[g], grown = true, true
			}
		}
	}
	idle := func(g *Guard) bool { return !matters[g] }
	for _, g := range all {
		if !matters[g.Elem] {
			g.Elem = nil
		}
		g.alternatives = slices.DeleteFunc(g.alternatives, idle)
		maps.DeleteFunc(g.names, func(_ string, f field) bool { return idle(f.guard) })
	}
	return matters
}

// matters reports whether a value itself needs checking, regardless of the values in it.
func (g *Guard) matters() bool {
	switch g.Form {
	case Quantity, Map, Any, Raw:
		return true
	}
	return g.Size > 0
}

// leadsTo reports whether any of these guards is directly below g.
func (g *Guard) leadsTo(these map[*Guard]bool) bool {
	in := func(g *Guard) bool { return these[g] }
	if these[g.Elem] || slices.ContainsFunc(g.alternatives, in) {
		return true
	}
	for _, f := range g.names {
		if these[f.guard] {
			return true
		}
	}
	return false
}

// newGuard is like Of, for a type nested in others. known contains the types seen so far.
func newGuard(t reflect.Type, known map[reflect.Type]*Guard) *Guard {
	if g, ok := known[t]; ok {
		return g
	}
	g := new(Guard)
	known[t] = g
	switch kind := t.Kind(); {
	case t == reflect.TypeFor[resource.Quantity]():
		g.Form = Quantity
	case kind == reflect.Interface, t == reflect.TypeFor[unstructured.Unstructured]():
		g.Form = Any
	case kind == reflect.Pointer:
		g.Form, g.Size, g.Elem = Pointer, int64(t.Elem().Size()), newGuard(t.Elem(), known)
	case kind == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		g.Form, g.Size, g.Elem = List, int64(t.Elem().Size()), newGuard(t.Elem(), known)
	case kind == reflect.Array:
		g.Form, g.Elem = List, newGuard(t.Elem(), known)
	case kind == reflect.Map:
		g.Form, g.MapBytes, g.Elem = Map, MapBytesOf(t.Key(), t.Elem()), newGuard(t.Elem(), known)
	case kind == reflect.Struct:
		g.setStruct(t, known)
	}
	return g
}

// setStruct makes g the guard of a struct. A struct that decodes itself and has no JSON names represents one
// of its fields: a bool or a schema, a list or an element of that list.
func (g *Guard) setStruct(t reflect.Type, known map[reflect.Type]*Guard) {
	g.Form, g.names = Struct, make(map[string]field)
	readsItself, named := reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()), false
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if named = named || name != "" && name != "-"; !f.IsExported() && !f.Anonymous {
			continue
		}
		if readsItself && f.Name == "Raw" && f.Type == reflect.TypeFor[[]byte]() {
			g.Form = Raw
			return
		}
		g.setField(f, name, known)
	}
	if !readsItself || named {
		return
	}
	g.Form = Unmarshaler
	for _, f := range g.names {
		if f.guard != nil {
			g.alternatives = append(g.alternatives, f.guard)
		}
	}
}

func (g *Guard) setField(f reflect.StructField, name string, known map[reflect.Type]*Guard) {
	of := newGuard(f.Type, known)
	embedded := of
	if f.Type.Kind() == reflect.Pointer {
		embedded = of.Elem
	}
	switch {
	case f.Tag.Get("json") == "-":
	case name != "":
		g.add(name, field{guard: of, tagged: true})
	case f.Anonymous && embedded.names != nil:
		if of != embedded {
			g.Size += of.Size
		}
		for name, inner := range embedded.names {
			inner.depth++
			g.add(name, inner)
		}
	case f.IsExported():
		g.add(f.Name, field{guard: of})
	}
}

// add adds a field. If another field has the same name and neither hides the other, encoding/json sets
// neither of them.
func (g *Guard) add(name string, f field) {
	have, ok := g.names[name]
	switch {
	case !ok || f.hides(have):
		g.names[name] = f
	case !have.hides(f):
		have.guard = nil
		g.names[name] = have
	}
}

// Field returns the guard for a struct's field, or nil if the value does not need checking.
func (g *Guard) Field(name string) *Guard { return g.names[name].guard }

// Alternative returns the guard for the field that an Unmarshaler sets, which depends on whether the value is
// an object, an array or something else. It returns nil if the value does not need checking.
func (g *Guard) Alternative(object, array bool) *Guard {
	for _, one := range g.alternatives {
		form := one.Form
		if form == Pointer && one.Elem != nil {
			form = one.Elem.Form
		}
		switch form {
		case Struct, Map:
			if object {
				return one
			}
		case List:
			if array {
				return one
			}
		case Any, Unmarshaler:
			return one
		}
	}
	return nil
}

// CheckValue fails with ErrQuantity if a value without a Go type, such as a map[string]any,
// contains an absurd quantity.
func (g *Guard) CheckValue(v any) error {
	for g != nil && g.Form == Pointer {
		g = g.Elem
	}
	if g == nil {
		return nil
	}
	switch v := v.(type) {
	case string:
		if g.Form == Quantity && AbsurdQuantity([]byte(v)) {
			return fault.ErrQuantity
		}
	case []any:
		for _, element := range v {
			if err := g.Elem.CheckValue(element); err != nil {
				return err
			}
		}
	case map[string]any:
		for name, value := range v {
			below := g.Field(name)
			if g.Form == Map {
				below = g.Elem
			}
			if err := below.CheckValue(value); err != nil {
				return fmt.Errorf("field %q: %w", fault.Excerpt(name), err)
			}
		}
	}
	return nil
}
