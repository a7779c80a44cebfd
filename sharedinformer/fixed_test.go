package sharedinformer

import (
	"context"
	"iter"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// fixed is a source that lists the same objects in every namespace. Its watch delivers the events
// sent to changes.
type fixed struct {
	items   []partial
	changes chan wire.Event[object.Head]
}

func newFixed(items ...partial) *fixed {
	return &fixed{items: items, changes: make(chan wire.Event[object.Head])}
}

func (f *fixed) Describe() source.Description {
	return source.Description{Name: "things", Narrows: true}
}

func (f *fixed) List(context.Context, source.Request) source.List[object.Head] {
	return source.List[object.Head]{Meta: &metav1.ListMeta{ResourceVersion: "10"}, Items: func(yield func(object.Head, error) bool) {
		for _, item := range f.items {
			if !yield(item, nil) {
				return
			}
		}
	}}
}

func (f *fixed) Watch(ctx context.Context, _ source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	return func(yield func(wire.Event[object.Head], error) bool) {
		for {
			select {
			case e := <-f.changes:
				if !yield(e, nil) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}, nil
}

// change sends version rv of an object.
func (f *fixed) change(name string, uid, rv int) {
	f.changes <- wire.Event[object.Head]{Type: watch.Modified, Object: thing(name, uid, rv)}
}

// things returns n objects.
func things(n int) (all []partial) {
	for k := range n {
		all = append(all, thing("t"+strconv.Itoa(k), 100+k, k+1))
	}
	return all
}

// runFor runs i and returns a function that stops it.
func runFor(t *testing.T, i *Informer[partial]) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- i.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		require.NoError(t, <-ended)
	}
}

// informerOf returns an informer that lists from.
func informerOf(from source.ListerWatcher, opts Options) *Informer[partial] {
	opts.Initial = reflector.List
	return New[partial](from, opts)
}
