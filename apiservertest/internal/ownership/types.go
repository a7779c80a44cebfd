package ownership

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/millrace-dev/millrace/object"
)

// Types builds merge schemas from Go types. Create it with [NewTypes].
//
// A struct becomes a map with the fields of its JSON form, a list is replaced as a whole unless a rule
// specifies otherwise, and a type with its own JSON encoding accepts anything. For an object without a
// Go type, only the metadata has a schema. The rest is merged according to its shape: maps by key, lists
// as a whole. A real server does the same for a custom resource whose schema has no merge rules.
type Types struct {
	rules func() rules // called before the first type is built

	mu   sync.Mutex
	made map[reflect.Type]typed.ParseableType
}

// NewTypes returns a [Types] with the rules for the built-in types.
func NewTypes() *Types {
	return &Types{rules: sync.OnceValue(readRules), made: map[reflect.Type]typed.ParseableType{}}
}

// shapeless is the Go type used for objects that have none.
type shapeless struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              any            `json:"spec"`
	Status            any            `json:"status"`
	Rest              map[string]any `json:",inline"`
}

// of returns the schema of an object's Go type.
func (t *Types) of(obj object.Object) typed.ParseableType {
	goType := reflect.TypeOf(obj).Elem()
	if _, ok := obj.(*unstructured.Unstructured); ok {
		goType = reflect.TypeFor[shapeless]()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	made, ok := t.made[goType]
	if !ok {
		made = t.build(goType)
		t.made[goType] = made
	}
	return made
}

// Type names for values without a schema. By the first, the library recognizes field sets that were
// built without a schema.
const (
	deduced = "__untyped_deduced_"
	atomic  = "__untyped_atomic_"
)

func (t *Types) build(root reflect.Type) typed.ParseableType {
	b := builder{rules: t.rules(), names: map[reflect.Type]string{}}
	b.add(deduced, anything(schema.Separable, deduced))
	b.add(atomic, anything(schema.Atomic, atomic))
	ref := b.ref(root)
	return typed.ParseableType{TypeRef: ref, Schema: &schema.Schema{Types: b.types}}
}

// anything is a scalar, a list that is replaced as a whole, or a map.
func anything(maps schema.ElementRelationship, inMaps string) schema.Atom {
	return schema.Atom{
		Scalar: new(schema.Untyped),
		List:   &schema.List{ElementType: to(atomic), ElementRelationship: schema.Atomic},
		Map:    &schema.Map{ElementType: to(inMaps), ElementRelationship: maps},
	}
}

func to(name string) schema.TypeRef { return schema.TypeRef{NamedType: &name} }

// builder collects the types used by one root type.
type builder struct {
	rules rules
	types []schema.TypeDef
	names map[reflect.Type]string // names of the structs in types, including those still being built
}

func (b *builder) add(name string, a schema.Atom) {
	b.types = append(b.types, schema.TypeDef{Name: name, Atom: a})
}

// ref returns the schema reference for a Go type.
func (b *builder) ref(t reflect.Type) schema.TypeRef {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if marshals(t) {
		return to(deduced)
	}
	switch t.Kind() {
	case reflect.Struct:
		return b.structRef(t)
	case reflect.Map:
		return inline(schema.Atom{Map: &schema.Map{ElementType: b.ref(t.Elem()), ElementRelationship: schema.Separable}})
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return inline(schema.Atom{Scalar: new(schema.Untyped)}) // base64
		}
		return inline(schema.Atom{List: &schema.List{ElementType: b.ref(t.Elem()), ElementRelationship: schema.Atomic}})
	case reflect.Interface:
		return to(deduced)
	}
	return inline(schema.Atom{Scalar: new(schema.Untyped)})
}

func inline(a schema.Atom) schema.TypeRef { return schema.TypeRef{Inlined: a} }

// marshals reports whether the type implements its own JSON encoding, like quantities
// and times.
func marshals(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]())
}

// structRef returns a reference to a struct, adding the struct if it is new. It registers the name
// before building the struct, since types may be recursive.
func (b *builder) structRef(t reflect.Type) schema.TypeRef {
	if name, ok := b.names[t]; ok {
		return to(name)
	}
	name := fmt.Sprintf("%v#%d", t, len(b.names)) // types declared inside functions may share a name
	b.names[t] = name
	m := &schema.Map{ElementRelationship: schema.Separable}
	if b.rules.of(t)[""].Atomic {
		m.ElementRelationship = schema.Atomic
	}
	b.fields(m, t)
	b.add(name, schema.Atom{Map: m})
	return to(name)
}

// fields adds the fields that a struct has in JSON.
func (b *builder) fields(m *schema.Map, t reflect.Type) {
	byRule := b.rules.of(t)
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case name == "" && f.Type.Kind() == reflect.Map && strings.Contains(options, "inline"):
			m.ElementType = b.ref(f.Type.Elem())
		case name == "" && f.Anonymous:
			b.fields(m, indirect(f.Type))
		default:
			if name == "" {
				name = f.Name
			}
			rule := byRule[name]
			m.Fields = append(m.Fields, schema.StructField{Name: name, Type: b.ruled(f.Type, rule), Default: rule.Default})
		}
	}
}

func indirect(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// ruled is like ref, but applies a field's rule.
func (b *builder) ruled(t reflect.Type, r rule) schema.TypeRef {
	ref := b.ref(t)
	relationship := schema.Associative
	if r.Atomic {
		relationship = schema.Atomic
	}
	switch {
	case r.Keys == nil && !r.Set && !r.Atomic:
	case ref.NamedType != nil:
		ref.ElementRelationship = &relationship
	case ref.Inlined.List != nil:
		ref.Inlined.List.ElementRelationship, ref.Inlined.List.Keys = relationship, r.Keys
	case ref.Inlined.Map != nil:
		ref.Inlined.Map.ElementRelationship = relationship
	}
	return ref
}
