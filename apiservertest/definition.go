package apiservertest

import (
	"encoding/json"
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/millrace-dev/millrace/object"
)

// definition holds the fields of a CustomResourceDefinition that [ReadDefinition] uses.
type definition struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Spec       struct {
		Group string `json:"group"`
		Scope string `json:"scope"`
		Names struct {
			Kind       string   `json:"kind"`
			ListKind   string   `json:"listKind"`
			Plural     string   `json:"plural"`
			Singular   string   `json:"singular"`
			ShortNames []string `json:"shortNames"`
			Categories []string `json:"categories"`
		} `json:"names"`
		Versions []struct {
			Name         string `json:"name"`
			Storage      bool   `json:"storage"`
			Subresources struct {
				Status *struct{} `json:"status"`
				Scale  *struct {
					SpecReplicasPath   string `json:"specReplicasPath"`
					StatusReplicasPath string `json:"statusReplicasPath"`
					LabelSelectorPath  string `json:"labelSelectorPath"`
				} `json:"scale"`
			} `json:"subresources"`
			Schema struct {
				OpenAPIV3Schema json.RawMessage `json:"openAPIV3Schema"`
			} `json:"schema"`
		} `json:"versions"`
	} `json:"spec"`
}

// ReadDefinition converts a CustomResourceDefinition manifest, in YAML or JSON, to a [Resource] for its
// storage version, with unstructured objects. To use a Go type, set New in the result.
func ReadDefinition(manifest []byte) (Resource, error) {
	var d definition
	if err := yaml.Unmarshal(manifest, &d); err != nil {
		return Resource{}, fmt.Errorf("read a CustomResourceDefinition: %w", err)
	}
	if d.APIVersion != "apiextensions.k8s.io/v1" || d.Kind != "CustomResourceDefinition" {
		return Resource{}, fmt.Errorf("the manifest is a %s %s, not an apiextensions.k8s.io/v1 CustomResourceDefinition", d.APIVersion, d.Kind)
	}
	names := d.Spec.Names
	for _, v := range d.Spec.Versions {
		if !v.Storage {
			continue
		}
		r := Resource{
			GVR:  object.GVR{Group: d.Spec.Group, Version: v.Name, Resource: names.Plural},
			Kind: names.Kind, ListKind: names.ListKind, Singular: names.Singular,
			ShortNames: names.ShortNames, Categories: names.Categories,
			Namespaced: d.Spec.Scope == "Namespaced", Generation: true,
			Status: v.Subresources.Status != nil,
			Schema: v.Schema.OpenAPIV3Schema,
		}
		if s := v.Subresources.Scale; s != nil {
			r.Scale = &Scale{SpecReplicas: s.SpecReplicasPath, StatusReplicas: s.StatusReplicasPath, Selector: s.LabelSelectorPath}
		}
		return r, nil
	}
	return Resource{}, fmt.Errorf("CustomResourceDefinition %s.%s: no version has storage: true", names.Plural, d.Spec.Group)
}
