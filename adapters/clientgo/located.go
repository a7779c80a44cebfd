package clientgo

import (
	"context"
	"fmt"
	"iter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// located is a source of what is served as a resource, whose kind is found out
// when it is first needed. T is *unstructured.Unstructured or
// *metav1.PartialObjectMetadata.
type located[T object.Object] struct {
	client    *rest.Client
	resource  schema.GroupVersionResource
	namespace string
	keep      wire.Fields
	pool      *wire.Pool             // nil where nothing is shared
	known     wire.Known             // nil where every object is decoded
	wanted    func(object.Head) bool // nil where every object is wanted
	selection source.Selection
}

// String names the source.
func (l *located[T]) String() string { return nameResource(l.resource.GroupResource(), l.namespace) }

// Reusing implements source.Reuser.
func (l *located[T]) Reusing(known wire.Known) source.ListerWatcher {
	keeping := *l
	keeping.known = known
	return &keeping
}

// Choosing implements source.Chooser.
func (l *located[T]) Choosing(wanted func(object.Head) bool) source.ListerWatcher {
	choosing := *l
	choosing.wanted = source.Both(choosing.wanted, wanted)
	return &choosing
}

// Selecting implements source.Selector.
func (l *located[T]) Selecting(s source.Selection) source.ListerWatcher {
	selecting := *l
	selecting.selection = s
	return &selecting
}

// SharedParts implements source.Sharer.
func (l *located[T]) SharedParts() *wire.Pool { return l.pool }

// Kept implements source.Limited.
func (l *located[T]) Kept() wire.Fields { return l.keep }

// Altered implements source.Limited.
func (l *located[T]) Altered() bool { return false }

// Reaches implements source.Limited.
func (l *located[T]) Reaches(namespace string) bool {
	return l.namespace == "" || namespace == "" || l.namespace == namespace
}

// find returns the source with its kind.
func (l *located[T]) find(ctx context.Context) (source.ListerWatcher, error) {
	m, err := l.client.Mapper().MappingForResource(ctx, l.resource)
	if err == nil && m.Resource != l.resource {
		err = fmt.Errorf("the server has %v instead", m.Resource)
	}
	if err != nil {
		return nil, fmt.Errorf("%v: %w", l.resource, &source.ResolveError{Err: err})
	}
	var found source.ListerWatcher
	objects := rest.ResourceForMapping[T](l.client, m).Namespace(l.namespace).Keep(l.keep).Sharing(l.pool).Source()
	if found = objects; l.known != nil {
		found = objects.(source.Reuser).Reusing(l.known)
	}
	if l.wanted != nil {
		found = source.Choosing(found, l.wanted)
	}
	return source.Selecting(found, l.selection), nil
}

// List implements source.ListerWatcher.
func (l *located[T]) List(ctx context.Context, opts metav1.ListOptions) source.List[object.Head] {
	list := source.List[object.Head]{Meta: new(metav1.ListMeta)}
	list.Items = func(yield func(object.Head, error) bool) {
		found, err := l.find(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		all := found.List(ctx, opts)
		for item, err := range all.Items {
			*list.Meta = *all.Meta
			if !yield(item, err) || err != nil {
				return
			}
		}
		*list.Meta = *all.Meta
	}
	return list
}

// Watch implements source.ListerWatcher.
func (l *located[T]) Watch(ctx context.Context, opts metav1.ListOptions) (iter.Seq2[wire.Event[object.Head], error], error) {
	found, err := l.find(ctx)
	if err != nil {
		return nil, err
	}
	return found.Watch(ctx, opts)
}
