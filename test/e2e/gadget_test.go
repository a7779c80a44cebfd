package e2e

import (
	"context"
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/rest/discovery"
)

// Gadget is the Go type of a custom resource, as a user would write it.
type Gadget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   GadgetSpec   `json:"spec"`
	Status GadgetStatus `json:"status,omitempty"`
}

// GadgetSpec is the desired state of a Gadget.
type GadgetSpec struct {
	Size  int64             `json:"size"`
	Parts map[string]string `json:"parts,omitempty"`
}

// GadgetStatus is the observed state.
type GadgetStatus struct {
	Seen int64 `json:"seen,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (g *Gadget) DeepCopyObject() runtime.Object {
	c := *g
	g.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	c.Spec.Parts = maps.Clone(g.Spec.Parts)
	return &c
}

// GadgetList is a list of Gadgets.
type GadgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Gadget `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *GadgetList) DeepCopyObject() runtime.Object {
	c := *l
	l.ListMeta.DeepCopyInto(&c.ListMeta)
	c.Items = make([]Gadget, len(l.Items))
	for i := range l.Items {
		c.Items[i] = *l.Items[i].DeepCopyObject().(*Gadget)
	}
	return &c
}

var (
	gadgetVersion = schema.GroupVersion{Group: "e2e.example.com", Version: "v1"}
	gadgetKind    = gadgetVersion.WithKind("Gadget")
	crdKind       = object.GVK{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
)

// define creates the definition of a custom resource with the given plural and kind, and returns
// when it is served. The definition is deleted when the test ends.
func define(t *testing.T, client *rest.Client, plural string, kind object.GVK) {
	t.Helper()
	anything := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	crd := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": plural + "." + kind.Group},
		"spec": map[string]any{
			"group": kind.Group, "scope": "Namespaced",
			"names": map[string]any{"kind": kind.Kind, "plural": plural},
			"versions": []any{map[string]any{
				"name": kind.Version, "served": true, "storage": true,
				"subresources": map[string]any{
					"status": map[string]any{},
					"scale":  map[string]any{"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.seen"},
				},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "properties": map[string]any{"spec": anything, "status": anything},
				}},
			}},
		},
	}}
	crds := rest.ResourceForKind[*unstructured.Unstructured](client, crdKind)
	made, err := crds.Create(t.Context(), crd, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { undefine(t, client, made.GetName(), made.GetUID()) })
	mapping := discovery.Mapping{Kind: kind, Resource: kind.GroupVersion().WithResource(plural), Namespaced: true}
	poll(t, plural+" are served", func() error {
		for _, err := range rest.ResourceForMapping[*unstructured.Unstructured](client, mapping).List(t.Context(), metav1.ListOptions{}).Items {
			return err
		}
		return nil
	})
}

// undefine deletes a definition, unless it was deleted before, and returns when the definition and
// its objects are gone.
func undefine(t *testing.T, client *rest.Client, name string, uid types.UID) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline) // the context of the test is done
	defer cancel()
	crds := rest.ResourceForKind[*metav1.PartialObjectMetadata](client, crdKind)
	err := crds.Delete(ctx, object.Key{Name: name}, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		require.NoError(t, err)
	}
	poll(t, name+" is gone", func() error {
		now, err := crds.Get(ctx, object.Key{Name: name}, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && now.UID != uid {
			return nil
		}
		if err != nil {
			return err
		}
		return fmt.Errorf("it has been terminating since %v", now.DeletionTimestamp)
	})
}
