package controllerruntime

import (
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/millrace-dev/millrace/adapters/clientgo"
	"github.com/millrace-dev/millrace/internal/selector"
	"github.com/millrace-dev/millrace/object"
)

// reader reads from a kind's informers.
type reader struct {
	*kind
	partial bool     // the cached objects are complete, but the caller only wants metadata
	from    []string // the scopes to read
}

// get stores the object with the given key in out.
func (r reader) get(key client.ObjectKey, out client.Object, inPlace bool) error {
	if !r.namespaced {
		key.Namespace = ""
	}
	s := r.scopes[r.from[0]]
	heads, ok := clientgo.HeadsOf(s.informer)
	if !ok {
		return fmt.Errorf("unable to get %v: %w", key, errNotSynced)
	}
	head, exists := heads.Get(key)
	if !exists {
		return apierrors.NewNotFound(schema.GroupResource{Group: r.form.gvk.Group, Resource: r.form.gvk.Kind}, key.Name)
	}
	object, err := r.give(heads, head, s.copies && !inPlace)
	if err != nil {
		return err
	}
	from, to := reflect.ValueOf(object), reflect.ValueOf(out)
	if !from.Type().AssignableTo(to.Type()) {
		return fmt.Errorf("the cache has a %v, but a %v was requested", from.Type(), to.Type())
	}
	to.Elem().Set(from.Elem())
	return nil
}

// errNotSynced is returned while the cache cannot be read.
var errNotSynced = errors.New("the informer has not synced")

// give returns the object for a head in the requested form. Packed objects are decoded from their bytes
// instead of copied.
func (r reader) give(heads clientgo.Heads, head object.Head, copied bool) (given runtime.Object, err error) {
	if copied && !r.partial {
		given, err = heads.Copy(head)
	} else {
		given, err = heads.Open(head)
	}
	if err == nil && r.partial {
		if given, err = metadataOf(given, r.form.gvk); err == nil && copied {
			given = given.DeepCopyObject()
		}
	}
	if err != nil {
		return nil, err
	}
	if copied {
		given.GetObjectKind().SetGroupVersionKind(r.form.gvk)
	}
	return given, nil
}

// metadataOf returns an object's metadata without copying it.
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

// errContinue is returned for a list with a continue token.
var errContinue = errors.New("continue list option is not supported by the cache")

// list stores the objects selected by the options in out.
func (r reader) list(out client.ObjectList, opts *client.ListOptions) error {
	if opts.Continue != "" {
		return errContinue
	}
	objects := []runtime.Object{}
	for _, name := range r.from {
		var err error
		if objects, err = r.gather(objects, r.scopes[name], opts); err != nil {
			return err
		}
	}
	if err := meta.SetList(out, objects); err != nil {
		return err
	}
	out.SetContinue("continue-not-supported") // same wording as in controller-runtime
	return nil
}

// gather appends the objects in a scope that match the options, up to the limit.
func (r reader) gather(objects []runtime.Object, s *scope, opts *client.ListOptions) ([]runtime.Object, error) {
	heads, ok := clientgo.HeadsOf(s.informer)
	if !ok {
		return nil, fmt.Errorf("unable to list: %w", errNotSynced)
	}
	found, with, err := find(heads, s.informer.GetIndexer(), opts)
	if err != nil {
		return nil, err
	}
	copied := s.copies && !ptr.Deref(opts.UnsafeDisableDeepCopy, false)
	for head := range found {
		if opts.Limit > 0 && int64(len(objects)) >= opts.Limit {
			break
		}
		if opts.LabelSelector != nil && !opts.LabelSelector.Matches(object.Labels(head)) {
			continue
		}
		ok, err := with.hold(heads, head)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		object, err := r.give(heads, head, copied)
		if err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// requirements are the values that an object's fields must have.
type requirements []requirement

type requirement struct {
	values toolscache.IndexFunc
	wanted string
}

// hold reports whether a head's object has the required values. If there are no requirements, it does
// not decode the object.
func (with requirements) hold(heads clientgo.Heads, head object.Head) (bool, error) {
	if len(with) == 0 {
		return true, nil
	}
	o, err := heads.Open(head)
	if err != nil {
		return false, err
	}
	return !slices.ContainsFunc(with, func(r requirement) bool { return !slices.Contains(valuesFor(r.values, o), r.wanted) }), nil
}

// find returns the heads of candidates, looked up by field or by namespace if possible; otherwise, it
// returns all heads. It also returns the requirements that remain to be checked.
func find(heads clientgo.Heads, store toolscache.Indexer, opts *client.ListOptions) (iter.Seq[object.Head], requirements, error) {
	if opts.FieldSelector != nil {
		return findByFields(heads, store, opts.FieldSelector, opts.Namespace)
	}
	return heads.Namespace(opts.Namespace), nil, nil
}

// findByFields uses the index on the first field. The other fields are returned as requirements.
func findByFields(heads clientgo.Heads, store toolscache.Indexer, by fields.Selector, namespace string) (iter.Seq[object.Head], requirements, error) {
	required := by.Requirements()
	if len(required) == 0 || selector.NoFields(by) || slices.ContainsFunc(required, func(r fields.Requirement) bool {
		return r.Operator != selection.Equals && r.Operator != selection.DoubleEquals
	}) {
		return nil, nil, fmt.Errorf("field selector %q: only exact matches are supported by the cache", by)
	}
	found, err := heads.ByIndex(indexOf(required[0].Field), valueIn(namespace, required[0].Value))
	if err != nil || len(required) == 1 {
		return found, nil, err
	}
	functions := store.GetIndexers()
	var with requirements
	for _, r := range required[1:] {
		values, ok := functions[indexOf(r.Field)]
		if !ok {
			return nil, nil, fmt.Errorf("index with name %s does not exist", indexOf(r.Field))
		}
		with = append(with, requirement{values, valueIn(namespace, r.Value)})
	}
	return found, with, nil
}
