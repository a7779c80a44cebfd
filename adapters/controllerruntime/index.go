package controllerruntime

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// indexOf returns the name of a field's index, which is the same as in controller-runtime.
func indexOf(field string) string { return "field:" + field }

// valueIn returns the index entry for a value in a namespace. The empty namespace stands for all
// namespaces.
func valueIn(namespace, value string) string { return namespace + "/" + value }

// valuesOf returns an index function with two entries per value: one for the object's namespace and one for
// all namespaces.
func valuesOf(extract client.IndexerFunc) toolscache.IndexFunc {
	return func(o any) ([]string, error) {
		object, ok := o.(client.Object)
		if !ok {
			return nil, fmt.Errorf("a %T is not an object", o)
		}
		var all []string
		for _, value := range extract(object) {
			all = append(all, valueIn(metav1.NamespaceAll, value))
			if namespace := object.GetNamespace(); namespace != "" {
				all = append(all, valueIn(namespace, value))
			}
		}
		return all, nil
	}
}

// valuesFor returns the values of an object. It returns no values if the function fails or panics,
// which was already reported when the object was indexed (L15).
func valuesFor(values toolscache.IndexFunc, o any) (all []string) {
	defer func() {
		if recover() != nil {
			all = nil
		}
	}()
	all, err := values(o)
	if err != nil {
		return nil
	}
	return all
}
