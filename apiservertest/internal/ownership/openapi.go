package ownership

import (
	"fmt"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/yaml"
)

// fromOpenAPI converts a custom resource's openAPIV3Schema, in JSON or YAML. As on the real server, its
// entries for apiVersion, kind and metadata are ignored.
func (t *Types) fromOpenAPI(document []byte) (typed.ParseableType, error) {
	const root = "object"
	var s spec.Schema
	if err := yaml.Unmarshal(document, &s); err != nil {
		return typed.ParseableType{}, fmt.Errorf("read the OpenAPI schema: %w", err)
	}
	converted, err := schemaconv.ToSchemaFromOpenAPI(map[string]*spec.Schema{root: &s}, false)
	if err != nil {
		return typed.ParseableType{}, fmt.Errorf("read the OpenAPI schema: %w", err)
	}
	b := builder{rules: t.rules(), names: map[reflect.Type]string{}, types: converted.Types}
	for _, def := range b.types {
		if def.Name != root || def.Map == nil {
			continue
		}
		def.Map.Fields = slices.DeleteFunc(def.Map.Fields, func(f schema.StructField) bool {
			return f.Name == "apiVersion" || f.Name == "kind" || f.Name == "metadata"
		})
		b.fields(def.Map, reflect.TypeFor[metav1.TypeMeta]())
		def.Map.Fields = append(def.Map.Fields, schema.StructField{
			Name: "metadata", Type: b.ref(reflect.TypeFor[metav1.ObjectMeta]()),
		})
		return typed.ParseableType{TypeRef: to(root), Schema: &schema.Schema{Types: b.types}}, nil
	}
	return typed.ParseableType{}, fmt.Errorf("the OpenAPI schema describes %q, not an object", s.Type)
}
