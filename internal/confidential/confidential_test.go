package confidential

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

type (
	holding  struct{ corev1.Secret }
	pointing struct{ *corev1.Secret }
	twice    struct{ holding }
	beside   struct{ Of corev1.Secret }
	Loop     struct {
		*Loop
		corev1.Pod
	}
	sealedSecret struct{}
)

// A Secret is known by its type, whatever is around it, and a type that embeds itself ends the search.
func TestWhichTypesAreSecrets(t *testing.T) {
	for want, types := range map[bool][]any{
		true:  {&corev1.Secret{}, corev1.Secret{}, &holding{}, pointing{}, &pointing{}, twice{}, &sealedSecret{}},
		false: {&corev1.Pod{}, &Loop{}, beside{}, map[string]any{}, nil},
	} {
		for _, of := range types {
			require.Equal(t, want, Type(reflect.TypeOf(of)), "%T", of)
		}
	}
}

func TestWhichObjectsAreSecrets(t *testing.T) {
	kind := func(kind string) metav1.TypeMeta { return metav1.TypeMeta{APIVersion: "example.com/v1", Kind: kind} }
	untyped := func(kind string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"kind": kind}}
	}
	for want, objects := range map[bool][]runtime.Object{
		true: {
			&corev1.Secret{}, &corev1.Pod{TypeMeta: kind("SealedSecret")}, untyped("Secret"), untyped(""), untyped("clustersecret"),
			&metav1.PartialObjectMetadata{}, &metav1.PartialObjectMetadata{TypeMeta: kind("Secret")},
		},
		false: {&corev1.Pod{}, untyped("Pod"), &metav1.PartialObjectMetadata{TypeMeta: kind("Pod")}},
	} {
		for _, o := range objects {
			require.Equal(t, want, Object(o), "%T %v", o, o)
		}
	}
	require.True(t, Named("pods", "externalSecrets"))
	require.False(t, Named("pods", ""))
}

func TestMarkIsCarriedByTheContext(t *testing.T) {
	require.False(t, Marked(t.Context()))
	require.True(t, Marked(Mark(t.Context())))
}
