// Package confidential decides which objects are secrets. It is used by debug pages, recordings,
// snapshots and informer-debug, so that they all withhold the same objects.
//
// When in doubt, an object is treated as a secret. Any name containing "secret" is enough, such as the
// kind SealedSecret, the resource clustersecrets, or the name of a Go type.
package confidential

import (
	"context"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Named reports whether one of the names (of a kind, a resource or an informer) contains "secret".
func Named(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return strings.Contains(strings.ToLower(name), "secret") })
}

// Type reports whether objects of a Go type are secrets, judging by the type's name or because it embeds
// corev1.Secret. It returns false for nil.
func Type(t reflect.Type) bool {
	switch {
	case t == nil:
		return false
	case Named(t.String()), isSecret(t):
		return true
	case t.Kind() == reflect.Pointer:
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct && slices.ContainsFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool {
		return f.Anonymous && isSecret(f.Type)
	})
}

// isSecret reports whether t is corev1.Secret or a pointer to it. It compares names, because packages
// below the client must not import the API types.
func isSecret(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.PkgPath() == "k8s.io/api/core/v1" && t.Name() == "Secret"
}

// Object reports whether an object is a secret, judging by its kind and Go type. An object that has no
// kind, and whose Go type fits any kind, is treated as a secret, because a transform may have removed
// the kind.
func Object(o runtime.Object) bool {
	kind := o.GetObjectKind().GroupVersionKind().Kind
	switch o.(type) {
	case *unstructured.Unstructured, *metav1.PartialObjectMetadata:
		if kind == "" {
			return true
		}
	}
	return Named(kind) || Type(reflect.TypeOf(o))
}

type contextKey struct{}

// Mark returns a context for requests whose responses contain secrets.
func Mark(ctx context.Context) context.Context { return context.WithValue(ctx, contextKey{}, true) }

// Marked reports whether ctx was marked by [Mark].
func Marked(ctx context.Context) bool { return ctx.Value(contextKey{}) != nil }
