package ownership

import (
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/yaml"
)

// fromOpenAPI returns the converter for custom resources with an openAPIV3Schema, in JSON or YAML. As on the
// real server, the schema's entries for apiVersion, kind and metadata are ignored.
func (t *Types) fromOpenAPI(kind schema.GroupVersionKind, document []byte) (managedfields.TypeConverter, error) {
	var s spec.Schema
	if err := yaml.Unmarshal(document, &s); err != nil {
		return nil, fmt.Errorf("read the OpenAPI schema: %w", err)
	}
	if len(s.Type) > 0 && !s.Type.Contains("object") {
		return nil, fmt.Errorf("the OpenAPI schema describes %q, not an object", s.Type)
	}
	if len(s.Properties) == 0 && s.AdditionalProperties == nil {
		s.AdditionalProperties = &spec.SchemaOrBool{Allows: true}
	}
	b := t.builder()
	b.specs["object"] = &s
	s.SetProperty("metadata", b.ref(reflect.TypeFor[metav1.ObjectMeta]()))
	b.fields(&s, reflect.TypeFor[metav1.TypeMeta]())
	converter, err := b.converter(kind, &s)
	if err != nil {
		return nil, fmt.Errorf("read the OpenAPI schema: %w", err)
	}
	return converter, nil
}
