package ownership

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/millrace-dev/millrace/object"
)

// Options of a Manager.
type Options struct {
	// Kind of the objects, and New, which makes an empty one; an unstructured one
	// has its kind set.
	Kind schema.GroupVersionKind
	New  func() object.Object

	// Schema is the openAPIV3Schema of a custom resource, in JSON or YAML. Empty: the
	// Go type says it all.
	Schema []byte

	// Default fills in what an applied object leaves out. Nil fills in nothing.
	Default func(object.Object)

	// Subresource that the writes go to; empty for the object itself.
	Subresource string

	// Reset are the fields that a write cannot change, such as
	// fieldpath.MakePathOrDie("status"). Whatever it says of them, it owns none.
	Reset []fieldpath.Path
}

// Manager keeps metadata.managedFields of the objects of one resource, or of one
// of its subresources, and applies. Make one with New.
type Manager struct {
	kind   kind
	fields *managedfields.FieldManager
}

// New makes a manager. It fails where Options.Schema cannot be read.
func New(types *Types, o Options) (*Manager, error) {
	k := kind{gvk: o.Kind, new: o.New, fill: o.Default}
	if len(o.Schema) == 0 {
		k.schema = types.of(o.New())
	} else if s, err := types.fromOpenAPI(o.Schema); err == nil {
		k.schema = s
	} else {
		return nil, fmt.Errorf("%v: %w", o.Kind, err)
	}
	version := o.Kind.GroupVersion()
	reset := map[fieldpath.APIVersion]fieldpath.Filter{
		fieldpath.APIVersion(version.String()): fieldpath.NewExcludeSetFilter(fieldpath.NewSet(o.Reset...)),
	}
	fields, err := managedfields.NewDefaultFieldManager(k, k, k, k, o.Kind, version, o.Subresource, reset)
	if err != nil {
		return nil, fmt.Errorf("manage the fields of %v: %w", o.Kind, err)
	}
	return &Manager{kind: k, fields: fields}, nil
}

// Update gives obj the managed fields that it has after manager has replaced live
// with it; live is nil for a creation. Of both the kind is set. An object that is
// not of its schema is an error, and keeps the managed fields of live.
func (m *Manager) Update(live, obj object.Object, manager string) (object.Object, error) {
	if live == nil {
		live = m.kind.new()
	}
	m.kind.setKind(live)
	m.kind.setKind(obj)
	result, err := m.fields.Update(live, obj, manager)
	if err != nil {
		obj.SetManagedFields(live.GetManagedFields())
		return obj, err
	}
	return m.finish(result), nil
}

// Apply merges what manager applies into live, which is nil for a creation, and
// gives the result with its managed fields. live and patch are used up.
func (m *Manager) Apply(live object.Object, patch *unstructured.Unstructured, manager string, force bool) (object.Object, error) {
	if live == nil {
		live = m.kind.new()
	}
	m.kind.setKind(live)
	result, err := m.fields.Apply(live, patch, manager, force)
	if err != nil {
		return nil, err
	}
	return m.finish(result), nil
}

// finish cuts the times of the managers down to the seconds that their JSON form
// has, so that an object that a client sends back is the same.
func (m *Manager) finish(result runtime.Object) object.Object {
	obj := result.(object.Object)
	entries := obj.GetManagedFields()
	for i := range entries {
		if t := entries[i].Time; t != nil {
			entries[i].Time = &metav1.Time{Time: t.Truncate(time.Second)}
		}
	}
	obj.SetManagedFields(entries)
	return obj
}

// kind is what the library wants to know about one kind of objects: how to make,
// to default and to convert one, and its schema. There is one version only, so
// that to convert is to give an object its Go type.
type kind struct {
	gvk    schema.GroupVersionKind
	new    func() object.Object
	fill   func(object.Object)
	schema typed.ParseableType
}

func (k kind) setKind(obj runtime.Object) { obj.GetObjectKind().SetGroupVersionKind(k.gvk) }

// New makes an empty object.
func (k kind) New(schema.GroupVersionKind) (runtime.Object, error) {
	obj := k.new()
	k.setKind(obj)
	return obj, nil
}

// Default fills in what is missing.
func (k kind) Default(obj runtime.Object) {
	if k.fill != nil {
		k.fill(obj.(object.Object))
	}
}

// ConvertToVersion gives an unstructured object its Go type.
func (k kind) ConvertToVersion(in runtime.Object, version runtime.GroupVersioner) (runtime.Object, error) {
	if gv, ok := version.(schema.GroupVersion); ok && gv != k.gvk.GroupVersion() {
		return nil, runtime.NewNotRegisteredErrForKind("apiserver", gv.WithKind(k.gvk.Kind))
	}
	u, ok := in.(*unstructured.Unstructured)
	out := k.new()
	if _, shapeless := out.(*unstructured.Unstructured); !ok || shapeless {
		return in, nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out); err != nil {
		return nil, err
	}
	k.setKind(out)
	return out, nil
}

// Convert is not asked for by the library.
func (k kind) Convert(in, out, context any) error {
	return fmt.Errorf("convert %T to %T: there is one version only", in, out)
}

// ConvertFieldLabel is not asked for by the library.
func (k kind) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

// ObjectToTyped gives an object its schema.
func (k kind) ObjectToTyped(obj runtime.Object, opts ...typed.ValidationOptions) (*typed.TypedValue, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return k.schema.FromUnstructured(u.Object, opts...)
	}
	return k.schema.FromStructured(obj, opts...)
}

// TypedToObject takes the schema away.
func (k kind) TypedToObject(v *typed.TypedValue) (runtime.Object, error) {
	content, ok := v.AsValue().Unstructured().(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%v: the result of a merge is not an object", k.gvk)
	}
	return &unstructured.Unstructured{Object: content}, nil
}
