package millrace

import (
	"context"
	"iter"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// local is a source backed by a feed.
type local[T object.Object] struct{ feed *scenario.Feed[T] }

func (l local[T]) Describe() source.Description { return source.Description{Name: "feed"} }

func (l local[T]) List(context.Context, source.Request) source.List[object.Head] {
	return source.List[object.Head]{
		Meta: &metav1.ListMeta{ResourceVersion: l.feed.ListRV()},
		Items: func(yield func(object.Head, error) bool) {
			for _, o := range l.feed.Items {
				if !yield(o, nil) {
					return
				}
			}
		},
	}
}

func (l local[T]) Watch(ctx context.Context, _ source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	return func(yield func(wire.Event[object.Head], error) bool) {
		for o := range l.feed.Events(ctx) {
			now := time.Now()
			if !yield(wire.Event[object.Head]{Type: watch.Modified, Object: o, Received: now, Decoded: now}, nil) {
				return
			}
		}
		<-ctx.Done()
	}, nil
}

// newLocal returns an informer that reads from a feed.
func newLocal[T object.Object](k Stack, feed *scenario.Feed[T]) *sharedinformer.Informer[T] {
	return sharedinformer.New[T](local[T]{feed}, sharedinformer.Options{Initial: reflector.List, Store: k.Store})
}

// start runs an informer until stop is called; stop waits for it to return.
func start[T object.Object](ctx context.Context, i *sharedinformer.Informer[T]) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	wait, err := i.Start(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	return func() {
		cancel()
		_ = wait() // nil, because Stop is never called
	}, i.WaitForSync(ctx)
}
