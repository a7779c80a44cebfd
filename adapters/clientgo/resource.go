package clientgo

import (
	"context"
	"iter"
	"maps"
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/rest"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/snapshot"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// ResourceOptions configure NewInformerFor. The zero value works.
type ResourceOptions struct {
	ResyncPeriod time.Duration
	Indexers     cache.Indexers

	// Tweak changes the options of every list and watch, to set selectors for
	// example.
	Tweak func(*metav1.ListOptions)

	// Pages lists in pages even where the server could stream a list.
	Pages bool

	// Pool is where equal parts of objects are there once. It is not used where
	// a transform is set, which may change objects. Nil shares nothing.
	Pool *wire.Pool

	// Store says how objects are cached; see WithStore.
	Store sharedinformer.Store

	// Snapshot is where the informer keeps what it has for the next process; see
	// sharedinformer.Options. Informers with a transform have none.
	Snapshot *snapshot.Directory
}

// NewInformerFor returns an informer, with the surface of client-go's, of the
// objects of a resource of a Millrace client. They are decoded straight from
// the bytes.
func NewInformerFor[T object.Object](objects *rest.Resource[T], opts ResourceOptions) cache.SharedIndexInformer {
	name := objects.String()
	i := newInformer(name, opts.ResyncPeriod, opts.Indexers)
	i.holds = reflect.TypeFor[T]().String()
	i.lists, i.caches, i.snapshots = opts.Pages, opts.Store, opts.Snapshot
	i.reflector = cache.NewReflectorWithOptions(&cache.ListWatch{}, nil, i.store, cache.ReflectorOptions{Name: name, TypeDescription: name})
	i.open = func(transform transform) source.ListerWatcher[object.Object] {
		if transform != nil {
			return transform(narrowed(mixed(objects), opts.Tweak))
		}
		return narrowed(mixed(objects.Sharing(opts.Pool)), opts.Tweak)
	}
	return i
}

// WaitForHandlers waits until each handler that informer has by now has heard of
// every object of its initial list, or is called no more. The error is the cause
// of ctx. An informer that is not Millrace's is not waited for.
func WaitForHandlers(ctx context.Context, informer cache.SharedIndexInformer) error {
	c, ok := informer.GetController().(controller)
	if !ok {
		return nil
	}
	c.mu.Lock()
	handlers := slices.Collect(maps.Keys(c.handlers))
	c.mu.Unlock()
	for _, r := range handlers {
		select {
		case <-r.synced.Done():
		case <-r.ended:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// mixed returns a source of objects of one Go type as one of any.
func mixed[T object.Object](from source.Reuser[T]) source.Reuser[object.Object] {
	if same, ok := any(from).(source.Reuser[object.Object]); ok {
		return same
	}
	return &mixing[T]{from, from}
}

// mixing is a source of objects of one Go type as one of any.
type mixing[T object.Object] struct {
	source source.ListerWatcher[T]
	whole  source.Reuser[T] // what it is made of
}

// Reusing implements source.Reuser.
func (m *mixing[T]) Reusing(known wire.Known[object.Object]) source.ListerWatcher[object.Object] {
	return &mixing[T]{m.whole.Reusing(func(key object.Key) (T, bool) {
		o, ok := known(key)
		t, is := o.(T)
		return t, ok && is
	}), m.whole}
}

// Origin implements source.Traced as the source does.
func (m *mixing[T]) Origin() (source.Origin, bool) { return source.OriginOf(m.whole) }

// List implements source.ListerWatcher.
func (m *mixing[T]) List(ctx context.Context, opts metav1.ListOptions) source.List[object.Object] {
	list := m.source.List(ctx, opts)
	return source.List[object.Object]{Meta: list.Meta, Items: func(yield func(object.Object, error) bool) {
		for item, err := range list.Items {
			if !yield(item, err) {
				return
			}
		}
	}}
}

// Watch implements source.ListerWatcher.
func (m *mixing[T]) Watch(ctx context.Context, opts metav1.ListOptions) (iter.Seq2[wire.Event[object.Object], error], error) {
	events, err := m.source.Watch(ctx, opts)
	if err != nil {
		return nil, err
	}
	return func(yield func(wire.Event[object.Object], error) bool) {
		for e, err := range events {
			event := wire.Event[object.Object]{Type: e.Type, Bytes: e.Bytes, Received: e.Received, Decoded: e.Decoded}
			if err == nil {
				event.Object = e.Object
			}
			if !yield(event, err) {
				return
			}
		}
	}, nil
}
