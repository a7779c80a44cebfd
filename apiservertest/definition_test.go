package apiservertest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/object"
)

func TestReadDefinition(t *testing.T) {
	const manifest = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
spec:
  group: example.com
  scope: Cluster
  names: {kind: Gadget, plural: gadgets, singular: gadget, listKind: Gadgets, shortNames: [gg], categories: [all]}
  versions:
  - {name: v1alpha1, served: true, storage: false}
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, properties: {parts: {type: array, x-kubernetes-list-type: set, items: {type: string}}}}}
`
	gadgets, err := apiservertest.ReadDefinition([]byte(manifest))
	require.NoError(t, err)
	require.Equal(t, object.GVR{Group: "example.com", Version: "v1", Resource: "gadgets"}, gadgets.GVR)
	require.True(t, gadgets.Status && gadgets.Generation && !gadgets.Namespaced)
	require.Equal(t, []string{"gg"}, gadgets.ShortNames)
	r := newRig(t, apiservertest.Options{Resources: []apiservertest.Resource{gadgets}})
	for _, part := range []string{"a", "b"} {
		code, raw, _ := r.do("PATCH", "/apis/example.com/v1/gadgets/g?fieldManager="+part,
			`{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"g"},"parts":["`+part+`"]}`, "Content-Type", applyYAML)
		require.Less(t, code, 300, "%s", raw)
	}
	stored, err := r.Get(gadgets.GVR, object.Key{Name: "g"})
	require.NoError(t, err)
	require.Equal(t, []any{"a", "b"}, stored.(*unstructured.Unstructured).Object["parts"], "each manager has its part")

	for wrong, message := range map[string]string{
		"[":                           "read a CustomResourceDefinition: ",
		"{apiVersion: v1, kind: Pod}": "the manifest is a v1 Pod, not an apiextensions.k8s.io/v1 CustomResourceDefinition",
		strings.Replace(manifest, "storage: true", "", 1): "CustomResourceDefinition gadgets.example.com: no version has storage: true",
	} {
		_, err := apiservertest.ReadDefinition([]byte(wrong))
		require.ErrorContains(t, err, message)
	}
	gadgets.Resource, gadgets.Schema = "others", []byte("{type: string}")
	require.ErrorContains(t, r.AddResource(gadgets), "the OpenAPI schema describes [\"string\"], not an object")
}
