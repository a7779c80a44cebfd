package sharedinformer

import (
	"context"
	"errors"
	"fmt"
	"iter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// feed is a reflector that fills the informer's queue. Most informers have one;
// one that was given Options.Namespaces has one for each.
type feed[T object.Object] struct {
	namespace string // metav1.NamespaceAll for all
	reflector *reflector.Reflector[T]

	cancel context.CancelFunc // ends its run, nil while it does not run; guarded by Informer.mu
	ended  chan struct{}      // closed when its last run has ended; guarded by Informer.mu
	left   bool               // it is no longer one of the informer's; guarded by Informer.mu

	whole bool   // its initial list is in the cache; guarded by Informer.join
	rv    string // up to where the cache has its changes; guarded by Informer.join
}

// start runs a feed as a part of r, when those before it have ended. It is called
// under mu.
func (i *Informer[T]) start(r *run, f *feed[T], before ...*feed[T]) {
	ctx, cancel := context.WithCancel(r.ctx)
	ended := make(chan struct{})
	f.cancel, f.ended = cancel, ended
	var awaited []chan struct{}
	for _, b := range before {
		awaited = append(awaited, b.ended)
	}
	r.feeds.Go(func() {
		defer close(ended)
		defer cancel()
		for _, other := range awaited {
			<-other
		}
		if err := f.reflector.Run(ctx); err != nil {
			r.fail(err)
		}
		i.mu.Lock()
		f.cancel = nil
		left := f.left
		i.mu.Unlock()
		if left {
			i.queue.Add(deltafifo.Delta[T]{Type: deltafifo.Trim})
		}
	})
}

// retryUnserved lets the feeds that wait for their kind to be served ask again at
// once when one of them, in state s, has found that it is. Each would find out by
// itself, but not before its own back-off ends.
func (i *Informer[T]) retryUnserved(s reflector.Status) {
	switch {
	case s.State == reflector.BackingOff && s.Failure.NotServed():
		i.unserved.Store(true)
	case s.State == reflector.Watching && i.unserved.Swap(false):
		for _, f := range *i.feeds.Load() {
			if s := f.reflector.Status(); s.Attempts > 0 && s.Failure.NotServed() {
				f.reflector.RetryNow()
			}
		}
	}
}

// within is a queue that is told of one namespace: it notes that with what is
// about all of it.
type within[T object.Object] struct {
	*deltafifo.DeltaFIFO[T]
	namespace string
}

// Add implements reflector.Queue.
func (w within[T]) Add(d deltafifo.Delta[T]) {
	if d.Key == (object.Key{}) {
		d.Key.Namespace = w.namespace
	}
	w.DeltaFIFO.Add(d)
}

// narrowed is the source of a feed of one namespace.
type narrowed[T object.Object] struct {
	source.ListerWatcher[T]
	err         error  // why there is no such source
	fresh       bool   // its first list must not be older than what was read before
	unnamespace func() // is called when the kind turns out to have no namespaces
}

// freshPage is the page size of a list that must not come from the server's cache.
const freshPage = 500

// String names the source.
func (n *narrowed[T]) String() string {
	if named, ok := n.ListerWatcher.(fmt.Stringer); ok {
		return named.String()
	}
	return fmt.Sprintf("%T", n.ListerWatcher)
}

// List lists the namespace.
func (n *narrowed[T]) List(ctx context.Context, opts metav1.ListOptions) source.List[T] {
	if n.err != nil {
		return source.List[T]{Meta: new(metav1.ListMeta), Items: func(yield func(T, error) bool) {
			var none T
			yield(none, n.err)
		}}
	}
	if n.fresh && opts.ResourceVersion == "0" {
		opts.ResourceVersion, opts.Limit = "", freshPage
	}
	list := n.ListerWatcher.List(ctx, opts)
	items := list.Items
	list.Items = func(yield func(T, error) bool) {
		for item, err := range items {
			n.learn(err)
			if !yield(item, err) {
				return
			}
		}
	}
	return list
}

// Watch watches the namespace.
func (n *narrowed[T]) Watch(ctx context.Context, opts metav1.ListOptions) (iter.Seq2[wire.Event[T], error], error) {
	if n.err != nil {
		return nil, n.err
	}
	events, err := n.ListerWatcher.Watch(ctx, opts)
	n.learn(err)
	return events, err
}

func (n *narrowed[T]) learn(err error) {
	if errors.Is(err, source.ErrNotNamespaced) {
		n.unnamespace()
	}
}
