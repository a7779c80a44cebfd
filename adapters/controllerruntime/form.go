package controllerruntime

import (
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// form is a kind of object together with its Go representation.
type form struct {
	gvk schema.GroupVersionKind
	as  shape
}

// shape is the Go representation of objects.
type shape uint8

const (
	typed   shape = iota
	untyped       // unstructured
	partial       // only metadata
)

// shapeOf returns the shape of an object, or of a list's items.
func shapeOf(obj runtime.Object) shape {
	switch obj.(type) {
	case runtime.Unstructured:
		return untyped
	case *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
		return partial
	}
	return typed
}

// goType returns the Go type of objects of this shape, or nil if the scheme determines it.
func (s shape) goType() reflect.Type {
	switch s {
	case untyped:
		return reflect.TypeFor[*unstructured.Unstructured]()
	case partial:
		return reflect.TypeFor[*metav1.PartialObjectMetadata]()
	}
	return nil
}

// formOf returns the form of an object, or of a list's items.
func (c *Cache) formOf(obj runtime.Object) (form, error) {
	gvk, err := apiutil.GVKForObject(obj, c.scheme)
	if err != nil {
		return form{}, err
	}
	if _, list := obj.(client.ObjectList); list {
		gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	}
	return form{gvk, shapeOf(obj)}, nil
}
