package torture

import (
	"context"
	"fmt"
	"maps"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/scheme"
)

// Gadget is the Go type of the custom resource.
type Gadget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec map[string]string `json:"spec,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (g *Gadget) DeepCopyObject() runtime.Object {
	c := *g
	g.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	c.Spec = maps.Clone(g.Spec)
	return &c
}

func newScheme() *runtime.Scheme {
	s := scheme.New()
	s.AddKnownTypes(gadgetKind.GroupVersion(), &Gadget{})
	return s
}

var crdKind = object.GVK{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

const definition = "gadgets.torture.example.com"

// define creates the definition of the custom resource. Each edition has another default. define
// returns when both servers serve the resource.
func (w *world) define(ctx context.Context, edition int) {
	crd := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": definition},
		"spec": map[string]any{
			"group": gadgetKind.Group, "scope": "Namespaced", "names": map[string]any{"kind": "Gadget", "plural": "gadgets"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": schemaOf(edition)}},
		},
	}}
	_, err := rest.ResourceForKind[*unstructured.Unstructured](w.direct[0], crdKind).Create(ctx, crd, metav1.CreateOptions{})
	require.NoError(w.t, err)
	w.served(ctx)
}

func schemaOf(edition int) map[string]any {
	text := map[string]any{"type": "string"}
	return map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{
		"spec": map[string]any{
			"type": "object", "additionalProperties": text,
			"default": map[string]any{"edition": fmt.Sprint(edition)},
		},
	}}}
}

// redefine changes the schema of the existing definition.
func (w *world) redefine(ctx context.Context, edition int) {
	patch := []map[string]any{{"op": "replace", "path": "/spec/versions/0/schema", "value": schemaOf(edition)}}
	_, err := rest.ResourceForKind[*unstructured.Unstructured](w.direct[0], crdKind).Patch(ctx, object.Key{Name: definition}, types.JSONPatchType, marshal(patch), metav1.PatchOptions{})
	require.NoError(w.t, err)
}

// undefine deletes the definition with all objects, and returns when it is gone.
func (w *world) undefine(ctx context.Context) {
	crds := rest.ResourceForKind[*unstructured.Unstructured](w.direct[0], crdKind)
	require.NoError(w.t, crds.Delete(ctx, object.Key{Name: definition}, metav1.DeleteOptions{}))
	require.Empty(w.t, until(patience, func() string {
		_, err := crds.Get(ctx, object.Key{Name: definition}, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprintf("the definition is still there: %v", err)
	}))
}

// served waits until both servers serve the custom resource.
func (w *world) served(ctx context.Context) {
	for _, client := range w.direct {
		require.Empty(w.t, until(patience, func() string {
			if _, err := client.Raw(ctx, "/apis/torture.example.com/v1/gadgets?limit=1"); err != nil {
				return err.Error()
			}
			return ""
		}))
	}
}
