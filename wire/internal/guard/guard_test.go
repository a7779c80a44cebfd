package guard

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Fields that lead to no checked value are omitted, and fields that lead to one indirectly are not.
func TestGuardOmitsUncheckedFields(t *testing.T) {
	type chain struct {
		Name  string
		Next  *chain
		Other map[string][]chain
		Sizes map[string]resource.Quantity
		Tags  map[string]string
	}
	g := Of(reflect.TypeFor[chain]())
	require.ElementsMatch(t, []string{"Next", "Other", "Sizes", "Tags"}, slices.Collect(maps.Keys(g.names)))
	require.Same(t, g, g.Field("Next").Elem)
	require.Same(t, g, g.Field("Other").Elem.Elem)
	require.Equal(t, Quantity, g.Field("Sizes").Elem.Form)
	require.Nil(t, g.Field("Tags").Elem)
	require.Nil(t, Of(reflect.TypeFor[struct{ A, B string }]()))

	pod := Of(reflect.TypeFor[corev1.Pod]())
	require.NotContains(t, pod.Field("metadata").names, "creationTimestamp")
	require.Contains(t, pod.Field("spec").names, "overhead")
}

// A type that decodes itself may become any of its fields.
func TestSelfDecodingTypesAreGuarded(t *testing.T) {
	g := Of(reflect.TypeFor[schemaOrBool]())
	require.Equal(t, Unmarshaler, g.Form)
	require.Equal(t, Pointer, g.Alternative(true, false).Form)
	require.Equal(t, List, g.Alternative(false, true).Form)
	require.Nil(t, g.Alternative(false, false))
	require.Nil(t, Of(reflect.TypeFor[intstr.IntOrString]()))
	require.Equal(t, Raw, Of(reflect.TypeFor[runtime.RawExtension]()).Form)
}

type schemaOrBool struct {
	Allows  bool
	Schema  *schema
	Schemas []schema
}

type schema struct {
	AnyOf []schemaOrBool `json:"anyOf"`
}

func (s *schemaOrBool) UnmarshalJSON([]byte) error { return nil }

// If fields have the same name, encoding/json fills the one with the least depth, or the one whose
// name is from a tag, or none.
func TestAHiddenFieldIsNotGuarded(t *testing.T) {
	type hidden struct{ Same, Twice, Tagged, Deep []corev1.Pod }
	type other struct {
		Twice  []corev1.Pod
		Other  []corev1.Node `json:"Tagged"`
		hidden               // its Deep is hidden by the less deep field of the same name
	}
	g := Of(reflect.TypeFor[struct {
		hidden
		*other
		Same []corev1.Service
	}]())
	size := func(t reflect.Type) int64 { return int64(t.Size()) }
	require.Equal(t, size(reflect.TypeFor[corev1.Service]()), g.Field("Same").Size)
	require.Equal(t, size(reflect.TypeFor[corev1.Node]()), g.Field("Tagged").Size)
	require.Equal(t, size(reflect.TypeFor[corev1.Pod]()), g.Field("Deep").Size)
	require.Nil(t, g.Field("Twice"))
}
