package ownership

import (
	"fmt"
	"maps"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/resource"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/randfill"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/scheme"
)

// Random objects of every built-in kind fit the schema of their type.
func TestTypesFitTheirObjects(t *testing.T) {
	kinds, unique := scheme.New(), 0
	next := func() int { unique++; return unique } // items of a list need different keys
	fill := randfill.New().NilChance(.8).NumElements(1, 2).RandSource(rand.NewSource(1)).Funcs(
		fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs)(serializer.NewCodecFactory(kinds))...).Funcs(
		func(s *string, c randfill.Continue) { *s = fmt.Sprint("s", next()) },
		func(n *int32, c randfill.Continue) { *n = int32(next()) },
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewQuantity(int64(c.Intn(1000)), resource.DecimalSI)
		})
	types, tried := NewTypes(), 0
	for kind, goType := range kinds.AllKnownTypes() {
		obj, ok := reflect.New(goType).Interface().(object.Object)
		if !ok || kind.Version == runtime.APIVersionInternal {
			continue
		}
		tried++
		fill.Fill(obj)
		obj.SetManagedFields(nil)
		obj.GetObjectKind().SetGroupVersionKind(kind)
		converter, err := types.of(kind, obj)
		require.NoError(t, err, "%v", kind)
		v, err := converter.ObjectToTyped(obj)
		require.NoError(t, err, "%v", kind)
		set, err := v.ToFieldSet()
		require.NoError(t, err, "%v", kind)
		require.NotEmpty(t, set.String())
	}
	require.Greater(t, tried, 50)
}

// Every rule is for an existing field of its type.
func TestRulesNameFields(t *testing.T) {
	kinds, b := scheme.New(), NewTypes().builder()
	for _, goType := range kinds.AllKnownTypes() {
		b.ref(goType)
	}
	var unknown []string
	checked := 0
	for goType, name := range b.names {
		for field := range b.rules.of(goType) {
			if field != "" {
				_, found := b.specs[name].Properties[field]
				if !found && !slices.Contains(unknown, field) {
					unknown = append(unknown, field)
				}
				checked++
			}
		}
	}
	require.Subset(t, later, unknown)
	require.Greater(t, checked, 100)
}

// later are fields with rules that some supported releases of k8s.io/api lack.
var later = []string{
	"bindMountOptions", "evictionResponders", "mapping", "nodeAllocatableResourceClaimStatuses", "overhead", "skipNodeOperations", "volumeHealth",
}

// own is a type like those that authors of controllers write.
type own struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Template          corev1.PodTemplateSpec `json:"template"`
	Plain             []corev1.Container     `json:"plain"`
	Parent            *own                   `json:"parent"`
	Anonymous         struct{ Field int }    `json:"anonymous"`
	Skipped           func()                 `json:"-"`
	Untagged          []byte
}

func (o *own) DeepCopyObject() runtime.Object { c := *o; return &c }

func TestCustomTypes(t *testing.T) {
	b := NewTypes().builder()
	resolve := func(s spec.Schema) spec.Schema {
		if name, ok := strings.CutPrefix(s.Ref.String(), "#/definitions/"); ok {
			return *b.specs[name]
		}
		return s
	}
	// field returns the schema of a struct's field.
	field := func(in spec.Schema, name string) spec.Schema {
		s, ok := resolve(in).Properties[name]
		require.True(t, ok, name)
		return s
	}
	root := b.ref(reflect.TypeFor[own]())
	require.Equal(t, []string{"Untagged", "anonymous", "apiVersion", "kind", "metadata", "parent", "plain", "template"}, fieldNames(resolve(root)))
	ports := field(*field(field(field(root, "template"), "spec"), "containers").Items.Schema, "ports")
	require.Equal(t, "map", ports.Extensions[listType], "parts of built-in types keep their rules")
	require.Equal(t, []string{"containerPort", "protocol"}, ports.Extensions[listKeys])
	require.Equal(t, "TCP", field(*ports.Items.Schema, "protocol").Default)
	require.Empty(t, field(root, "plain").Extensions, "one's own lists have none")
	require.Equal(t, root, field(root, "parent"), "a type may contain itself")
	require.Equal(t, []string{"Field"}, fieldNames(resolve(field(root, "anonymous"))))
	require.Equal(t, "set", field(field(root, "metadata"), "finalizers").Extensions[listType])
	require.Equal(t, "atomic", field(field(field(root, "template"), "spec"), "nodeSelector").Extensions[mapType])
}

func fieldNames(s spec.Schema) []string { return slices.Sorted(maps.Keys(s.Properties)) }

func TestOpenAPI(t *testing.T) {
	types, kind := NewTypes(), schema.GroupVersionKind{Version: "v1", Kind: "Own"}
	made, err := types.fromOpenAPI(kind, []byte(`{type: object, properties: {metadata: {type: object}, spec: {type: object, properties: {
		parts: {type: array, x-kubernetes-list-type: set, items: {type: string}}}}}}`))
	require.NoError(t, err)
	v, err := made.ObjectToTyped(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Own", "metadata": map[string]any{"name": "a", "finalizers": []any{"f"}}, "spec": map[string]any{"parts": []any{"p"}},
	}})
	require.NoError(t, err)
	set, err := v.ToFieldSet()
	require.NoError(t, err)
	require.Contains(t, set.String(), `.spec.parts[="p"]`)
	require.Contains(t, set.String(), `.metadata.finalizers[="f"]`)

	for document, message := range map[string]string{
		`{type: string}`: `the OpenAPI schema describes ["string"], not an object`,
		`[`:              "read the OpenAPI schema: error converting YAML to JSON: ",
		`{type: object, x-kubernetes-map-type: odd}`: "object: unknown map type odd",
	} {
		_, err := types.fromOpenAPI(kind, []byte(document))
		require.ErrorContains(t, err, message)
	}
}
