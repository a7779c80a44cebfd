package clientgo

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
)

// object is the constraint for objects in a feed.
type object interface {
	metav1.Object
	runtime.Object
}

// local is a list-watch that reads from a feed.
type local[T object] struct {
	feed *scenario.Feed[T]
	list func(items []T, rv string) runtime.Object
}

func (l local[T]) ListWithContext(context.Context, metav1.ListOptions) (runtime.Object, error) {
	return l.list(l.feed.Items, l.feed.ListRV()), nil
}

func (l local[T]) List(opts metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), opts)
}

// WatchWithContext feeds a buffered channel, which is faster than the unbuffered channel used by real
// watches.
func (l local[T]) WatchWithContext(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
	ctx, cancel := context.WithCancel(ctx)
	w := &feedWatch{events: make(chan watch.Event, 128), cancel: cancel}
	go func() {
		defer close(w.events)
		for o := range l.feed.Events(ctx) {
			select {
			case w.events <- watch.Event{Type: watch.Modified, Object: o}:
			case <-ctx.Done():
				return
			}
		}
		<-ctx.Done()
	}()
	return w, nil
}

func (l local[T]) Watch(opts metav1.ListOptions) (watch.Interface, error) {
	return l.WatchWithContext(context.Background(), opts)
}

type feedWatch struct {
	events chan watch.Event
	cancel context.CancelFunc
}

func (w *feedWatch) Stop()                          { w.cancel() }
func (w *feedWatch) ResultChan() <-chan watch.Event { return w.events }

// newLocal returns an informer that reads from a feed and has the same index as a factory's informers.
func newLocal[T object](k Stack, s *protocol.Session, feed *scenario.Feed[T], list func(items []T, rv string) runtime.Object) (cache.SharedIndexInformer, error) {
	if err := setWatchList(s); err != nil {
		return nil, err
	}
	var example T
	if len(feed.Items) > 0 {
		example = feed.Items[0]
	}
	indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	return k.Informer(local[T]{feed, list}, example, 0, indexers), nil
}

// start runs an informer until stop is called; stop waits for it to return.
func start(ctx context.Context, i cache.SharedIndexInformer) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		i.RunWithContext(ctx)
	}()
	<-i.HasSyncedChecker().Done()
	return func() {
		cancel()
		<-ended
	}
}
