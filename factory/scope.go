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

// Scope limits an informer to some of the objects of its type. The zero value means all objects.
type Scope struct {
	// Namespaces limits the informer to a fixed set of namespaces, which are listed and watched separately
	// but cached together. Nil means all. The order does not matter. To change the set later, use
	// Factory.SetNamespaces.
	Namespaces []string

	Labels labels.Selector // nil for all
	Fields fields.Selector // nil for all

	// Shard selects this process's share; see sharedinformer.Options. Two shards are equal if their keys
	// have the same name and their shares are equal.
	Shard shard.Scope
}

// or returns s, or the default if s is zero. If s sets only Shard, the other fields come from the default,
// because a share is a subset of the objects that the program handles.
func (s Scope) or(byDefault Scope) Scope {
	if s.Namespaces != nil || s.Labels != nil || s.Fields != nil {
		return s
	}
	if !s.Shard.Everything() {
		byDefault.Shard = s.Shard
	}
	return byDefault
}

// namespaces returns the namespaces in normalized form, or nil if none are set.
func (s Scope) namespaces() []string {
	if s.Namespaces == nil {
		return nil
	}
	return sharedinformer.NamespaceSet(s.Namespaces)
}

// For selects an informer when the type alone is not enough.
type For[T object.Object] struct {
	// Kind is the objects' kind. It is required if T does not determine it: for *unstructured.Unstructured,
	// *metav1.PartialObjectMetadata (which reads only metadata) and object.Object.
	Kind object.GVK

	// Scope limits the informer. The zero value means Options.Scope; a scope that sets only Shard means
	// that share of Options.Scope. To get all objects if Options.Scope is limited, use labels.Everything().
	Scope Scope

	// Keep selects the object fields to cache, such as wire.WithoutManagedFields or
	// wire.Only("metadata.labels", "spec.nodeName"); other fields are not even decoded. Fields needed to
	// look up objects must be kept, such as labels for a selector. The zero value means Options.Keep; if
	// that omits fields, use wire.Without() to get all fields. The first request determines Keep:
	// requesting an existing informer with different fields is an error.
	Keep wire.Fields

	// Store selects how objects are cached; sharedinformer.Packed uses a fraction of the memory.
	// DefaultStore means Options.Store. The informer's first request determines the store. It affects only
	// memory use and speed (C01).
	Store sharedinformer.Store

	// Annotations lists the annotations kept in heads; see sharedinformer.Options. The informer's first
	// request determines them.
	Annotations []string

	// Transform modifies each object before it is cached; see reflector.Transformed. Transformed objects
	// cannot share parts, so a transform may cost more memory than it saves. Only the informer's first
	// request may set it; a later request with a transform is an error.
	Transform func(T) (T, error)

	// TransformVersion identifies the transform and its version, such as "slim 2". It is required for
	// Options.Snapshot, because functions cannot be compared. Change it whenever the transform changes.
	TransformVersion string

	// Optional declares that the caller can work without the kind as long as the server does not serve it,
	// for example because the CRD is not installed. WaitForSync then does not wait for the informer, which
	// keeps retrying. If another caller requests the informer without Optional, WaitForSync waits for it.
	Optional bool
}

// want is a For without its type parameter.
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
