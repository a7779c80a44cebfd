package ownership

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/millrace-dev/millrace/object"
)

// Types builds merge schemas from Go types. Create it with [NewTypes].
//
// A struct becomes an object with the properties of its JSON form, a list is replaced as a whole unless a rule
// specifies otherwise, and a type with its own JSON encoding accepts anything. For an object without a
// Go type, only the metadata has a schema. The rest is merged according to its shape: maps by key, lists
// as a whole. A real server does the same for a custom resource whose schema has no merge rules.
type Types struct {
	rules func() rules // called before the first type is built

	mu   sync.Mutex
	made map[madeFor]managedfields.TypeConverter
}

// madeFor identifies a converter. A kind may be served with several Go types, and a Go type as several kinds.
type madeFor struct {
	goType reflect.Type
	kind   schema.GroupVersionKind
}

// NewTypes returns a [Types] with the rules for the built-in types.
func NewTypes() *Types {
	return &Types{rules: sync.OnceValue(readRules), made: map[madeFor]managedfields.TypeConverter{}}
}

// shapeless is the Go type used for objects that have none.
type shapeless struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              any            `json:"spec"`
	Status            any            `json:"status"`
	Rest              map[string]any `json:",inline"`
}

// of returns the converter for objects of a kind, by their Go type.
func (t *Types) of(kind schema.GroupVersionKind, obj object.Object) (managedfields.TypeConverter, error) {
	goType := reflect.TypeOf(obj).Elem()
	if _, ok := obj.(*unstructured.Unstructured); ok {
		goType = reflect.TypeFor[shapeless]()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if made, ok := t.made[madeFor{goType, kind}]; ok {
		return made, nil
	}
	b := t.builder()
	b.ref(goType)
	made, err := b.converter(kind, b.specs[b.names[goType]])
	if err == nil {
		t.made[madeFor{goType, kind}] = made
	}
	return made, err
}

func (t *Types) builder() *builder {
	return &builder{rules: t.rules(), names: map[reflect.Type]string{}, specs: map[string]*spec.Schema{}}
}

// builder collects the OpenAPI schemas of the structs used by one root type.
type builder struct {
	rules rules
	names map[reflect.Type]string // names of the structs in specs, including those still being built
	specs map[string]*spec.Schema
}

// converter returns a converter for objects of a kind, whose schema is root.
func (b *builder) converter(kind schema.GroupVersionKind, root *spec.Schema) (managedfields.TypeConverter, error) {
	root.AddExtension("x-kubernetes-group-version-kind", []any{
		map[string]any{"group": kind.Group, "version": kind.Version, "kind": kind.Kind},
	})
	return managedfields.NewTypeConverter(b.specs, false)
}

// ref returns the schema of a Go type: a reference if it is a struct.
func (b *builder) ref(t reflect.Type) spec.Schema {
	t = indirect(t)
	if marshals(t) {
		return spec.Schema{} // anything
	}
	switch t.Kind() {
	case reflect.Struct:
		return b.structRef(t)
	case reflect.Map:
		return *spec.MapProperty(new(b.ref(t.Elem())))
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return scalar() // base64
		}
		return *spec.ArrayProperty(new(b.ref(t.Elem())))
	case reflect.Interface:
		return spec.Schema{}
	}
	return scalar()
}

// scalar returns the schema of any scalar. An unknown format makes the type of a string irrelevant.
func scalar() spec.Schema { return *spec.StrFmtProperty("scalar") }

// marshals reports whether the type implements its own JSON encoding, like quantities
// and times.
func marshals(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]())
}

// structRef returns a reference to a struct, adding the struct if it is new. It registers the name
// before building the struct, since types may be recursive.
func (b *builder) structRef(t reflect.Type) spec.Schema {
	name, ok := b.names[t]
	if !ok {
		name = fmt.Sprint("struct", len(b.names))
		s := &spec.Schema{}
		b.names[t], b.specs[name] = name, s
		s.Typed("object", "").WithProperties(map[string]spec.Schema{})
		s.AdditionalProperties = &spec.SchemaOrBool{}
		if b.rules.of(t)[""].Atomic {
			s.AddExtension(mapType, "atomic")
		}
		b.fields(s, t)
	}
	return *spec.RefSchema("#/definitions/" + name)
}

// fields adds the fields that a struct has in JSON.
func (b *builder) fields(s *spec.Schema, t reflect.Type) {
	byRule := b.rules.of(t)
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case name == "" && f.Type.Kind() == reflect.Map && strings.Contains(options, "inline"):
			s.AdditionalProperties = spec.MapProperty(new(b.ref(f.Type.Elem()))).AdditionalProperties
		case name == "" && f.Anonymous:
			b.fields(s, indirect(f.Type))
		default:
			if name == "" {
				name = f.Name
			}
			s.Properties[name] = byRule[name].apply(b.ref(f.Type))
		}
	}
}

func indirect(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}
