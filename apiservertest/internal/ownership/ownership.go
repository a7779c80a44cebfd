package ownership

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"github.com/millrace-dev/millrace/object"
)

// Options are the options of a [Manager].
type Options struct {
	// Kind is the objects' kind. New returns an empty object, with its kind set if it is unstructured.
	Kind schema.GroupVersionKind
	New  func() object.Object

	// Schema is a custom resource's openAPIV3Schema, in JSON or YAML. If it is empty, the schema is derived
	// from the Go type.
	Schema []byte

	// Default, if set, fills in missing fields of an applied object.
	Default func(object.Object)

	// Subresource is the subresource being written; empty means the object itself.
	Subresource string

	// Reset lists the paths of the fields that a write cannot change, such as {"status"} or {"metadata",
	// "labels"}. A writer does not become their owner.
	Reset [][]string
}

// Manager maintains the metadata.managedFields of a resource's or subresource's objects, and merges applied
// objects. Create it with [New].
type Manager struct {
	kind   kind
	fields *managedfields.FieldManager
	reset  [][]string
}

// New returns a Manager. It fails if Options.Schema cannot be parsed.
func New(types *Types, o Options) (*Manager, error) {
	var converter managedfields.TypeConverter
	var err error
	if len(o.Schema) == 0 {
		converter, err = types.of(o.Kind, o.New())
	} else {
		converter, err = types.fromOpenAPI(o.Kind, o.Schema)
	}
	if err != nil {
		return nil, fmt.Errorf("%v: %w", o.Kind, err)
	}
	k := kind{gvk: o.Kind, new: o.New, fill: o.Default}
	fields, err := managedfields.NewDefaultFieldManager(converter, k, k, k, o.Kind, o.Kind.GroupVersion(), o.Subresource, nil)
	if err != nil {
		return nil, fmt.Errorf("manage the fields of %v: %w", o.Kind, err)
	}
	return &Manager{kind: k, fields: fields, reset: o.Reset}, nil
}

// Update sets obj's managed fields for a write by manager that replaces live with obj; live is nil for a
// creation. It sets the kind of both objects. If obj does not match its schema, Update fails and obj
// keeps live's managed fields.
func (m *Manager) Update(live, obj object.Object, manager string) (object.Object, error) {
	if live == nil {
		live = m.kind.new()
	}
	m.kind.setKind(live)
	m.kind.setKind(obj)
	written, err := m.written(live, obj)
	if err == nil {
		written, err = m.fields.Update(live, written, manager)
	}
	if err != nil {
		obj.SetManagedFields(live.GetManagedFields())
		return obj, err
	}
	obj.SetManagedFields(written.(object.Object).GetManagedFields())
	finish(obj)
	return obj, nil
}

// written returns obj with live's values in the fields that the write cannot change.
func (m *Manager) written(live, obj object.Object) (runtime.Object, error) {
	if len(m.reset) == 0 {
		return obj, nil
	}
	before, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return nil, err
	}
	// The converter copies all objects but unstructured ones.
	if u, ok := obj.(*unstructured.Unstructured); ok {
		obj = u.DeepCopy()
	}
	after, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	for _, path := range m.reset {
		value, ok, err := unstructured.NestedFieldNoCopy(before, path...)
		if err != nil {
			return nil, err
		}
		if !ok {
			unstructured.RemoveNestedField(after, path...)
		} else if err := unstructured.SetNestedField(after, value, path...); err != nil {
			return nil, err
		}
	}
	return &unstructured.Unstructured{Object: after}, nil
}

// Apply merges manager's patch into live, which is nil for a creation, and returns the
// result with its managed fields. The caller must not use live and patch afterwards.
func (m *Manager) Apply(live object.Object, patch *unstructured.Unstructured, manager string, force bool) (object.Object, error) {
	if live == nil {
		live = m.kind.new()
	}
	m.kind.setKind(live)
	for _, path := range m.reset {
		unstructured.RemoveNestedField(patch.Object, path...)
	}
	result, err := m.fields.Apply(live, patch, manager, force)
	if err != nil {
		return nil, err
	}
	obj := result.(object.Object)
	finish(obj)
	return obj, nil
}

// finish truncates the managed fields' timestamps to seconds, like their JSON form, so that an object
// compares equal when a client sends it back.
func finish(obj object.Object) {
	entries := obj.GetManagedFields()
	for i := range entries {
		if t := entries[i].Time; t != nil {
			entries[i].Time = &metav1.Time{Time: t.Truncate(time.Second)}
		}
	}
	obj.SetManagedFields(entries)
}

// kind tells the library how to create, default and convert objects of one kind.
// There is only one version, so converting merely turns an object into its Go type.
type kind struct {
	gvk  schema.GroupVersionKind
	new  func() object.Object
	fill func(object.Object)
}

func (k kind) setKind(obj runtime.Object) { obj.GetObjectKind().SetGroupVersionKind(k.gvk) }

// New returns an empty object.
func (k kind) New(schema.GroupVersionKind) (runtime.Object, error) {
	obj := k.new()
	k.setKind(obj)
	return obj, nil
}

// Default fills in missing fields.
func (k kind) Default(obj runtime.Object) {
	if k.fill != nil {
		k.fill(obj.(object.Object))
	}
}

// ConvertToVersion converts an unstructured object to its Go type.
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

// Convert is never called by the library.
func (k kind) Convert(in, out, context any) error {
	return fmt.Errorf("convert %T to %T: there is only one version", in, out)
}

// ConvertFieldLabel is never called by the library.
func (k kind) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}
