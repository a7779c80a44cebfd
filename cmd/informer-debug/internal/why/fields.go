package why

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/diff"
	"github.com/millrace-dev/millrace/debug"
)

// differing returns the fields that differ between cache and server. For a metadata-only cache it compares
// only metadata. If the process does not show contents, it compares only labels.
func differing(i *debug.Informer, cached *debug.Object, served *unstructured.Unstructured) ([]diff.Change, error) {
	if cached == nil || served == nil {
		return nil, nil
	}
	if cached.Contents == nil {
		return diff.Between(labelsAlone(cached.Head.Labels), labelsAlone(served.GetLabels()))
	}
	var has map[string]any
	if err := json.Unmarshal(cached.Contents, &has); err != nil { // preserves integers as the server sent them
		return nil, fmt.Errorf("cached contents: %w", err)
	}
	is := runtime.DeepCopyJSON(served.Object)
	if strings.HasSuffix(i.Type, ".PartialObjectMetadata") {
		has, is = map[string]any{"metadata": has["metadata"]}, map[string]any{"metadata": is["metadata"]}
	}
	for _, member := range []string{"apiVersion", "kind"} { // may be missing in typed objects
		if has[member] == nil {
			delete(is, member)
		}
	}
	unstructured.RemoveNestedField(is, "metadata", "annotations", corev1.LastAppliedConfigAnnotation) // omitted by a process
	return diff.Between(&unstructured.Unstructured{Object: bare(has)}, &unstructured.Unstructured{Object: bare(is)})
}

// labelsAlone returns an object with only labels.
func labelsAlone(labels map[string]string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	if len(labels) > 0 {
		o.SetLabels(labels)
	}
	return o
}

// bare removes empty members, which typed objects include but servers omit.
func bare(tree map[string]any) map[string]any {
	for name, value := range tree {
		switch v := value.(type) {
		case nil:
			delete(tree, name)
		case map[string]any:
			if len(bare(v)) == 0 {
				delete(tree, name)
			}
		case []any:
			for _, item := range v {
				if m, ok := item.(map[string]any); ok {
					bare(m)
				}
			}
		}
	}
	return tree
}
