package wire

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace-dev/millrace/internal/objects"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/scheme"
)

// scribble changes everything reachable from v.
func scribble(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			scribble(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				scribble(v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			scribble(v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			scribble(v.MapIndex(key))
			v.SetMapIndex(key, reflect.Zero(v.Type().Elem()))
		}
	case reflect.String:
		if v.CanSet() {
			v.SetString(v.String() + " changed")
		}
	case reflect.Bool:
		if v.CanSet() {
			v.SetBool(!v.Bool())
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if v.CanSet() {
			v.SetInt(v.Int() + 1)
		}
	case reflect.Uint8:
		if v.CanSet() {
			v.SetUint(v.Uint() ^ 1)
		}
	}
}

// Nothing that a caller does to a copy changes another object of the packer, in any form of
// packing.
func TestACopySharesNothing(t *testing.T) {
	pod := objects.Pod(1, 0, objects.Options{})
	pod.Spec.EnableServiceLinks, pod.Spec.Tolerations = new(true), []corev1.Toleration{{Key: "some", TolerationSeconds: new(int64(300))}}
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	t.Run("protobuf", func(t *testing.T) {
		copiesShareNothing[object.Object](t, kind, MediaProtobuf, encodeAs(t, MediaProtobuf, kind, pod))
	})
	t.Run("JSON", func(t *testing.T) {
		copiesShareNothing[object.Object](t, kind, MediaJSON, encodeAs(t, MediaJSON, kind, pod))
	})
	t.Run("metadata", func(t *testing.T) {
		copiesShareNothing[*metav1.PartialObjectMetadata](t, kind, MediaJSON, encodeAs(t, MediaJSON, kind, pod))
	})
	t.Run("untyped", func(t *testing.T) {
		copiesShareNothing[*unstructured.Unstructured](t, kind, MediaJSON, encodeAs(t, MediaJSON, kind, pod))
	})
}

func copiesShareNothing[T object.Object](t *testing.T, kind schema.GroupVersionKind, media string, body []byte) {
	pool := NewPool()
	p := NewPacker(pool)
	decoder, err := p.Decoder(media, &Options{Type: reflect.TypeFor[T](), Scheme: scheme.New(), Kind: kind, Pool: pool})
	require.NoError(t, err)
	var all []*Packed
	for range 4 { // equal parts are shared from the second or third object on
		packed, err := packedOf(decoder.Object(body))
		require.NoError(t, err)
		require.False(t, packed.KeptWhole())
		all = append(all, packed)
	}
	want, err := all[0].Copy()
	require.NoError(t, err)
	var opened []T
	for round := range 2 {
		for _, packed := range all {
			copied, err := packed.Copy()
			require.NoError(t, err)
			scribble(reflect.ValueOf(copied))
			require.False(t, equality.Semantic.DeepEqual(want, copied))
		}
		for i, packed := range all {
			o, err := packed.Open()
			require.NoError(t, err)
			require.True(t, equality.Semantic.DeepEqual(want, o), "round %d, %d", round, i)
			opened = append(opened, o.(T))
		}
	}
	for i, o := range opened {
		require.True(t, equality.Semantic.DeepEqual(want, o), i)
		require.Equal(t, want.GetLabels(), all[i%4].GetLabels())
	}
}
