package factory

import (
	"reflect"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// Scope narrows an informer to some of the objects of its type. The zero value means all
// of them.
type Scope struct {
	// Namespaces are some, for good: each is listed and watched on its own, and all are in
	// one cache. Nil means all. The order does not matter. For namespaces that change see
	// Factory.SetNamespaces.
	Namespaces []string

	Labels labels.Selector // nil for all
	Fields fields.Selector // nil for all

	// Shard is what of those this process has; see sharedinformer.Options. Two shards with
	// keys of one name and equal shares are one.
	Shard shard.Scope
}

func (s Scope) isZero() bool {
	return s.Namespaces == nil && s.Labels == nil && s.Fields == nil && s.Shard.Everything()
}

// namespaces returns those that are named, in one form for all that mean the same;
// nil where none is.
func (s Scope) namespaces() []string {
	if s.Namespaces == nil {
		return nil
	}
	return sharedinformer.NamespaceSet(s.Namespaces)
}

// For says which informer is wanted, where the type alone does not.
type For[T object.Object] struct {
	// Kind is the kind of the objects. It is needed where T does not tell:
	// *unstructured.Unstructured, *metav1.PartialObjectMetadata (which reads
	// the metadata alone) and object.Object.
	Kind object.GVK

	// Scope narrows the informer. The zero value means Options.Scope; where
	// that narrows and all objects are wanted, say labels.Everything().
	Scope Scope

	// Keep says which fields of the objects are cached, such as
	// wire.WithoutManagedFields or wire.Only("metadata.labels",
	// "spec.nodeName"); the others are not even decoded. Nothing that is looked
	// for in the cache may be left out, such as the labels for a selector. The
	// zero value means Options.Keep; where that leaves something out and all
	// fields are wanted, say wire.Without(). It belongs to the informer: all who
	// ask for it must want the same, and to ask with other fields is an error.
	Keep wire.Fields

	// Store says how objects are cached: sharedinformer.Packed for a fraction of the
	// memory. DefaultStore means Options.Store. It belongs to the informer: the first to
	// ask decides, and nobody notices but by memory and time (C01).
	Store sharedinformer.Store

	// Annotations are those that heads have at hand; see sharedinformer.Options. They belong
	// to the informer: the first to ask decides.
	Annotations []string

	// Transform changes each object before it is cached; see
	// reflector.Transformed. Objects that are changed cannot share parts, so
	// that a transform may cost more memory than it saves. It belongs to the
	// informer: the first to ask decides, and asking with another one later is
	// an error.
	Transform func(T) (T, error)

	// TransformVersion names the transform and its version, such as "slim 2". It is needed
	// for Options.Snapshot, since nobody can tell two functions apart: change it whenever
	// the transform changes.
	TransformVersion string

	// Optional says that the caller can do without the kind as long as the server
	// does not serve it, such as that of a custom resource definition that is not
	// installed: WaitForSync does not wait for it then. The informer goes on asking.
	// It is not optional where another caller does not say so.
	Optional bool
}

// want is a For of any type.
type want struct {
	For[object.Object]
	goType    reflect.Type
	transform func(source.ListerWatcher) source.ListerWatcher // nil for none
	make      func(source.ListerWatcher, sharedinformer.Options) informer
}

func wanted[T object.Object](w For[T]) want {
	plain := want{
		For: For[object.Object]{
			Kind: w.Kind, Scope: w.Scope, Keep: w.Keep, Store: w.Store, Annotations: w.Annotations,
			TransformVersion: w.TransformVersion, Optional: w.Optional,
		},
		goType: reflect.TypeFor[T](),
		make: func(from source.ListerWatcher, opts sharedinformer.Options) informer {
			return sharedinformer.New[T](from, opts)
		},
	}
	if w.Transform != nil {
		plain.transform = func(from source.ListerWatcher) source.ListerWatcher { return reflector.Transformed(from, w.Transform) }
	}
	return plain
}
