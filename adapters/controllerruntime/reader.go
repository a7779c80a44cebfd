package controllerruntime

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// reader reads from the informers of a kind.
type reader struct {
	*kind
	partial bool // the objects are whole, and only their metadata is wanted
}

// get puts the object under key into out.
func (r reader) get(key client.ObjectKey, out client.Object, inPlace bool) error {
	if !r.namespaced {
		key.Namespace = ""
	}
	s, ok := r.scope(key.Namespace)
	if !ok {
		return fmt.Errorf("unable to get %v: the cache does not have that namespace", key)
	}
	path := key.Name
	if key.Namespace != "" {
		path = key.Namespace + "/" + key.Name
	}
	found, exists, err := s.informer.GetIndexer().GetByKey(path)
	if err != nil {
		return err
	}
	if !exists {
		return apierrors.NewNotFound(schema.GroupResource{Group: r.form.gvk.Group, Resource: r.form.gvk.Kind}, key.Name)
	}
	object, err := r.give(found, s.copies && !inPlace)
	if err != nil {
		return err
	}
	from, to := reflect.ValueOf(object), reflect.ValueOf(out)
	if !from.Type().AssignableTo(to.Type()) {
		return fmt.Errorf("the cache has a %v, and a %v was asked for", from.Type(), to.Type())
	}
	to.Elem().Set(from.Elem())
	return nil
}

// scope returns the scope that has a namespace.
func (r reader) scope(namespace string) (scope, bool) {
	s, ok := r.scopes[namespace]
	if !ok {
		s, ok = r.scopes[metav1.NamespaceAll]
	}
	return s, ok
}

// give returns a cached object in the form that is wanted.
func (r reader) give(cached any, copied bool) (runtime.Object, error) {
	object, ok := cached.(runtime.Object)
	if !ok {
		return nil, fmt.Errorf("the cache has a %T, which is not an object", cached)
	}
	if r.partial {
		var err error
		if object, err = metadataOf(object, r.form.gvk); err != nil {
			return nil, err
		}
	}
	if copied {
		object = object.DeepCopyObject()
		object.GetObjectKind().SetGroupVersionKind(r.form.gvk)
	}
	return object, nil
}

// metadataOf returns the metadata of an object, which they share.
func metadataOf(object runtime.Object, gvk schema.GroupVersionKind) (runtime.Object, error) {
	all, err := meta.Accessor(object)
	if err != nil {
		return nil, err
	}
	if inside, ok := object.(metav1.ObjectMetaAccessor); ok {
		all = inside.GetObjectMeta()
	}
	part := meta.AsPartialObjectMetadata(all)
	part.SetGroupVersionKind(gvk)
	return part, nil
}

// errContinue says that a list cannot be gone on with.
var errContinue = errors.New("continue list option is not supported by the cache")

// list puts the objects that the options select into out.
func (r reader) list(out client.ObjectList, opts *client.ListOptions) error {
	if opts.Continue != "" {
		return errContinue
	}
	var scopes []scope
	if r.namespaced && opts.Namespace != metav1.NamespaceAll {
		s, ok := r.scope(opts.Namespace)
		if !ok {
			return fmt.Errorf("unable to list: the cache does not have namespace %q", opts.Namespace)
		}
		scopes = []scope{s}
	} else {
		for _, namespace := range r.namespaces() {
			scopes = append(scopes, r.scopes[namespace])
		}
	}
	objects := []runtime.Object{}
	for _, s := range scopes {
		var err error
		if objects, err = r.gather(objects, s, opts); err != nil {
			return err
		}
	}
	if err := meta.SetList(out, objects); err != nil {
		return err
	}
	out.SetContinue("continue-not-supported") // as controller-runtime writes it
	return nil
}

// gather appends the objects of one scope that the options select, until the
// limit is reached.
func (r reader) gather(objects []runtime.Object, s scope, opts *client.ListOptions) ([]runtime.Object, error) {
	found, err := find(s.informer.GetIndexer(), opts)
	if err != nil {
		return nil, err
	}
	objects = slices.Grow(objects, len(found))
	copied := s.copies && !ptr.Deref(opts.UnsafeDisableDeepCopy, false)
	for _, o := range found {
		if opts.Limit > 0 && int64(len(objects)) >= opts.Limit {
			break
		}
		if opts.LabelSelector != nil {
			all, err := meta.Accessor(o)
			if err != nil {
				return nil, err
			}
			if !opts.LabelSelector.Matches(labels.Set(all.GetLabels())) {
				continue
			}
		}
		object, err := r.give(o, copied)
		if err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// find returns what may match: by fields, by namespace, or all.
func find(store toolscache.Indexer, opts *client.ListOptions) ([]any, error) {
	switch {
	case opts.FieldSelector != nil:
		return findByFields(store, opts.FieldSelector, opts.Namespace)
	case opts.Namespace != metav1.NamespaceAll:
		return store.ByIndex(toolscache.NamespaceIndex, opts.Namespace)
	}
	return store.List(), nil
}

// findByFields takes what the index of the first field has and looks whether it
// has the values of the other fields too.
func findByFields(store toolscache.Indexer, selector fields.Selector, namespace string) ([]any, error) {
	required := selector.Requirements()
	if len(required) == 0 || slices.ContainsFunc(required, func(r fields.Requirement) bool {
		return r.Operator != selection.Equals && r.Operator != selection.DoubleEquals
	}) {
		return nil, fmt.Errorf("field selector %q: only exact matches are supported by the cache", selector)
	}
	found, err := store.ByIndex(indexOf(required[0].Field), valueIn(namespace, required[0].Value))
	if err != nil {
		return nil, err
	}
	functions := store.GetIndexers()
	for _, r := range required[1:] {
		values, ok := functions[indexOf(r.Field)]
		if !ok {
			return nil, fmt.Errorf("index with name %s does not exist", indexOf(r.Field))
		}
		wanted := valueIn(namespace, r.Value)
		found = slices.DeleteFunc(found, func(o any) bool {
			return !slices.Contains(valuesFor(values, o), wanted)
		})
	}
	return found, nil
}
