package get

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/sight"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/internal/confidential"
	"github.com/millrace-dev/millrace/object"
)

// item is an object to print.
type item struct {
	resource string // resource name, for -o name
	head     debug.Head
	tree     map[string]any // the object, or only its metadata if the contents are withheld; nil if the head suffices
	withheld string         // why the contents are withheld
}

// readObject reads an object from a cache, with its tree if requested. If the object is gone, it returns nil
// or, if anyway is true, an error.
func readObject(ctx context.Context, v *sight.Sight, which debug.Which, key object.Key, anyway bool) (*item, error) {
	o, err := v.Process.Object(ctx, which, key)
	if refused, ok := errors.AsType[*debug.RefusedError](err); ok && !anyway && refused.Code == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, v.Unanswered(ctx, err)
	}
	one := &item{resource: sight.Resource(o.Informer), head: o.Head, withheld: o.Withheld}
	if o.Contents == nil {
		one.tree = metadataOf(&o.Head)
		return one, nil
	}
	if err := json.Unmarshal(o.Contents, &one.tree); err != nil { // preserves integers as the server sent them
		return nil, &exit.Error{Code: exit.CodeRuntime, Err: fmt.Errorf("contents of %s: %w", object.FormatKey(key), err)}
	}
	return one, nil
}

// metadataOf converts a head to a PartialObjectMetadata.
func metadataOf(h *debug.Head) map[string]any {
	meta := map[string]any{"name": h.Name, "uid": h.UID, "resourceVersion": h.RV}
	if h.Namespace != "" {
		meta["namespace"] = h.Namespace
	}
	if h.Generation != 0 {
		meta["generation"] = h.Generation
	}
	if len(h.Labels) > 0 {
		labels := map[string]any{}
		for name, value := range h.Labels {
			labels[name] = value
		}
		meta["labels"] = labels
	}
	var owners []any
	for _, o := range h.Owners {
		owner := map[string]any{"kind": o.Kind, "name": o.Name, "uid": o.UID}
		if o.Controller {
			owner["controller"] = true
		}
		owners = append(owners, owner)
	}
	if owners != nil {
		meta["ownerReferences"] = owners
	}
	return map[string]any{"apiVersion": metav1.SchemeGroupVersion.String(), "kind": "PartialObjectMetadata", "metadata": meta}
}

// readAll reads a cache page by page.
func readAll(ctx context.Context, v *sight.Sight, which debug.Which, search string, trees bool) (all []item, err error) {
	page := debug.Page{Namespace: v.Flags.Namespace, Selector: v.Flags.Selector, Search: search, Limit: 500}
	for {
		objects, err := v.Process.Objects(ctx, which, page)
		if err != nil {
			return nil, v.Unanswered(ctx, err)
		}
		for _, h := range objects.Heads {
			one := &item{resource: sight.Resource(objects.Informer), head: h}
			if trees {
				if one, err = readObject(ctx, v, which, object.Key{Namespace: h.Namespace, Name: h.Name}, false); err != nil {
					return nil, err
				}
			}
			if one != nil { // it may have been deleted since
				all = append(all, *one)
			}
		}
		if page.Continue = objects.Continue; page.Continue == "" {
			return all, nil
		}
	}
}

// itemOf converts an object from one of our own informers to the form package debug would return.
func itemOf(resource string, o *unstructured.Unstructured) item {
	one := item{resource: resource, head: debug.Head{
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: string(o.GetUID()), RV: o.GetResourceVersion(),
		Generation: o.GetGeneration(), Deleting: o.GetDeletionTimestamp() != nil, Labels: o.GetLabels(),
	}}
	for _, r := range o.GetOwnerReferences() {
		one.head.Owners = append(one.head.Owners, debug.Owner{Kind: r.Kind, Name: r.Name, UID: string(r.UID), Controller: r.Controller != nil && *r.Controller})
	}
	if confidential.Named(resource) || confidential.Object(o) {
		one.tree, one.withheld = metadataOf(&one.head), "contents of Secrets are not shown"
		return one
	}
	if one.tree = o.Object; o.GetAnnotations()[corev1.LastAppliedConfigAnnotation] != "" { // the annotation contains another copy of the object
		copied := o.DeepCopy()
		unstructured.RemoveNestedField(copied.Object, "metadata", "annotations", corev1.LastAppliedConfigAnnotation)
		one.tree = copied.Object
	}
	return one
}
