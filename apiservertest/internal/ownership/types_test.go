package ownership

import (
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/resource"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/randfill"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest/scheme"
)

// Random objects of every built-in kind fit the schema of their type.
func TestTypesFitTheirObjects(t *testing.T) {
	kinds := scheme.New()
	fill := randfill.New().NilChance(.8).NumElements(1, 2).RandSource(rand.NewSource(1)).Funcs(
		fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs)(serializer.NewCodecFactory(kinds))...).Funcs(
		func(s *string, c randfill.Continue) { *s = fmt.Sprint("s", c.Intn(100)) }, // an item needs a key
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
		v, err := types.of(obj).FromStructured(obj, typed.AllowDuplicates)
		require.NoError(t, err, "%v", kind)
		set, err := v.ToFieldSet()
		require.NoError(t, err, "%v", kind)
		require.NotEmpty(t, set.String())
	}
	require.Greater(t, tried, 50)
}

// Every rule is for an existing field of its type.
func TestRulesNameFields(t *testing.T) {
	kinds, types := scheme.New(), NewTypes()
	b := builder{rules: types.rules(), names: map[reflect.Type]string{}}
	for _, goType := range kinds.AllKnownTypes() {
		b.ref(goType)
	}
	var unknown []string
	checked := 0
	for goType, name := range b.names {
		at := slices.IndexFunc(b.types, func(d schema.TypeDef) bool { return d.Name == name })
		for field := range b.rules.of(goType) {
			if field != "" {
				_, found := b.types[at].Map.FindField(field)
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
	made := NewTypes().of(&own{})
	resolve := func(ref schema.TypeRef) schema.Atom {
		a, ok := made.Schema.Resolve(ref)
		require.True(t, ok)
		return a
	}
	field := func(in schema.Atom, name string) schema.Atom {
		f, ok := in.Map.FindField(name)
		require.True(t, ok, name)
		return resolve(f.Type)
	}
	root := resolve(made.TypeRef)
	require.Equal(t, []string{"kind", "apiVersion", "metadata", "template", "plain", "parent", "anonymous", "Untagged"}, fieldNames(root))
	ports := field(resolve(field(field(field(root, "template"), "spec"), "containers").List.ElementType), "ports").List
	require.Equal(t, schema.Associative, ports.ElementRelationship, "parts of built-in types keep their rules")
	require.Equal(t, []string{"containerPort", "protocol"}, ports.Keys)
	protocol, _ := resolve(ports.ElementType).Map.FindField("protocol")
	require.Equal(t, "TCP", protocol.Default)
	require.Equal(t, schema.Atomic, field(root, "plain").List.ElementRelationship, "one's own lists have none")
	require.Equal(t, fieldNames(root), fieldNames(field(root, "parent")), "a type may contain itself")
	require.Equal(t, []string{"Field"}, fieldNames(field(root, "anonymous")))
	require.Equal(t, schema.Associative, field(field(root, "metadata"), "finalizers").List.ElementRelationship)
	require.Equal(t, schema.Atomic, field(field(field(root, "template"), "spec"), "nodeSelector").Map.ElementRelationship)
}

func fieldNames(a schema.Atom) []string {
	var names []string
	for _, f := range a.Map.Fields {
		names = append(names, f.Name)
	}
	return names
}

func TestOpenAPI(t *testing.T) {
	types := NewTypes()
	made, err := types.fromOpenAPI([]byte(`{type: object, properties: {metadata: {type: object}, spec: {type: object, properties: {
		parts: {type: array, x-kubernetes-list-type: set, items: {type: string}}}}}}`))
	require.NoError(t, err)
	v, err := made.FromUnstructured(map[string]any{
		"apiVersion": "v1", "metadata": map[string]any{"name": "a", "finalizers": []any{"f"}}, "spec": map[string]any{"parts": []any{"p"}},
	})
	require.NoError(t, err)
	set, err := v.ToFieldSet()
	require.NoError(t, err)
	require.Contains(t, set.String(), `.spec.parts[="p"]`)
	require.Contains(t, set.String(), `.metadata.finalizers[="f"]`)

	for document, message := range map[string]string{
		`{type: string}`: `the OpenAPI schema describes ["string"], not an object`,
		`[`:              "read the OpenAPI schema: error converting YAML to JSON: ",
		`{type: object, x-kubernetes-map-type: odd}`: "read the OpenAPI schema: object: unknown map type odd",
	} {
		_, err := types.fromOpenAPI([]byte(document))
		require.ErrorContains(t, err, message)
	}
}
