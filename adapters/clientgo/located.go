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

// located is a source for a resource whose kind is discovered at the first request. T is
// *unstructured.Unstructured or *metav1.PartialObjectMetadata.
type located[T object.Object] struct {
	client    *rest.Client
	resource  schema.GroupVersionResource
	namespace string
	keep      wire.Fields
	pool      *wire.Pool // nil to disable sharing
}

// Describe implements source.ListerWatcher. The resource supports every request option.
func (l *located[T]) Describe() source.Description {
	return source.Description{
		Name: nameResource(l.resource.GroupResource(), l.namespace), Namespace: l.namespace, Kept: l.keep, Pool: l.pool,
		Narrows: true, Reuses: true, Filters: true, Packs: true,
	}
}

// find returns the source of the discovered kind.
func (l *located[T]) find(ctx context.Context) (source.ListerWatcher, error) {
	m, err := l.client.Mapper().MappingForResource(ctx, l.resource)
	if err == nil && m.Resource != l.resource {
		err = fmt.Errorf("the server has %v instead", m.Resource)
	}
	if err != nil {
		return nil, fmt.Errorf("%v: %w", l.resource, &source.ResolveError{Err: err})
	}
	return rest.ResourceForMapping[T](l.client, m).Namespace(l.namespace).Keep(l.keep).Sharing(l.pool).Source(), nil
}

// List implements source.ListerWatcher.
func (l *located[T]) List(ctx context.Context, req source.Request) source.List[object.Head] {
	list := source.List[object.Head]{Meta: new(metav1.ListMeta)}
	list.Items = func(yield func(object.Head, error) bool) {
		found, err := l.find(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		all := found.List(ctx, req)
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
func (l *located[T]) Watch(ctx context.Context, req source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	found, err := l.find(ctx)
	if err != nil {
		return nil, err
	}
	return found.Watch(ctx, req)
}
