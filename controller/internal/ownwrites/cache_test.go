package ownwrites

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

// A Namespace without finalizers in its metadata remains while its spec has some.
func TestNamespaceIsRemovedWithTheLastFinalizer(t *testing.T) {
	now := metav1.Now()
	namespace := func(finalizers ...corev1.FinalizerName) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", DeletionTimestamp: &now}, Spec: corev1.NamespaceSpec{Finalizers: finalizers}}
	}
	untyped := func(spec map[string]any) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		u.SetDeletionTimestamp(&now)
		return u
	}
	var all wire.Fields
	for _, c := range []struct {
		o    object.Object
		kept wire.Fields
		want bool
	}{
		{namespace(), all, true},
		{namespace(), wire.Only("metadata"), false},
		{namespace(corev1.FinalizerKubernetes), all, false},
		{untyped(nil), all, true},
		{untyped(map[string]any{"finalizers": []any{}}), all, true},
		{untyped(map[string]any{"finalizers": []any{"kubernetes"}}), all, false},
		{&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}}, all, false},
	} {
		require.Equal(t, c.want, removed(c.o, corev1.SchemeGroupVersion.WithKind("Namespace"), c.kept), "%v with %s", c.o, c.kept)
	}
}
