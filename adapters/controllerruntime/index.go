package controllerruntime

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// indexOf is the name of the index of a field, as controller-runtime has it.
func indexOf(field string) string { return "field:" + field }

// valueIn is what a value is in an index that is looked up by namespace too. The
// empty namespace stands for all.
func valueIn(namespace, value string) string { return namespace + "/" + value }

// valuesOf returns the function of an index: each value twice, in the object's
// namespace and in all.
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

// valuesFor returns the values of an object; none where the function fails or
// panics, which was reported when the object came into the index (L15).
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
