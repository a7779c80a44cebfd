package rest

import (
	"net/http"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// A source yields the same as its resource: objects of the same Go type, requested in
// the same way, and packed directly from the bytes.
func TestSourceYieldsTheSameAsItsResource(t *testing.T) {
	var accept string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		accept = r.Header.Get("Accept")
		w.Header().Set("Content-Type", wire.MediaJSON)
		_, _ = w.Write(encode(t, wire.MediaJSON, corev1.SchemeGroupVersion.WithKind("PodList"), podList("a", "b")))
	})
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	yieldsTheSame(t, ResourceForKind[*corev1.Pod](c, kind).Namespace("default"), &accept, wire.MediaProtobuf+","+wire.MediaJSON)
	yieldsTheSame(t, ResourceForKind[*unstructured.Unstructured](c, kind).Namespace("default"), &accept, wire.MediaJSON)

	partial := ResourceForKind[*metav1.PartialObjectMetadata](c, kind).Source()
	for range partial.List(t.Context(), source.Request{}).Items {
	}
	require.Contains(t, accept, ";as=PartialObjectMetadataList")
}

func yieldsTheSame[T object.Object](t *testing.T, from *Resource[T], accept *string, want string) {
	t.Helper()
	in := from.Source().(*lister)
	require.Equal(t, "pods in namespace default", in.String())
	origin, ok := in.Describe().Origin()
	require.True(t, ok)
	require.Equal(t, reflect.TypeFor[T](), origin.Type)
	for item, err := range in.List(t.Context(), source.Request{}).Items {
		require.NoError(t, err)
		require.IsType(t, *new(T), item)
	}
	require.Equal(t, want, *accept)
	packed := source.Request{Packer: wire.NewPacker(nil)}
	require.Equal(t, []string{"a", "b"}, itemNames(t, in.List(t.Context(), packed)))
	for item, err := range in.List(t.Context(), packed).Items {
		require.NoError(t, err)
		opened, err := item.(*wire.Packed).Open()
		require.NoError(t, err)
		require.IsType(t, *new(T), opened)
	}
}
