// Package growth measures how costs grow with the number of things that a user can choose.
//
//	go test ./test/growth -run '^$' -bench . -benchtime 3x
//
// Each benchmark reports the time per element for 10, 100, 1,000 and 10,000 elements. If the total
// cost is quadratic, the last row is a hundred times as high as the second.
package growth

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/sharedinformer"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
	"github.com/millrace-dev/millrace/workqueue"
)

// growing runs do for 10, 100, 1,000 and 10,000 elements, and reports the time per element.
func growing(b *testing.B, do func(b *testing.B, n int)) { growingTo(b, 10_000, do) }

// growingTo is growing for up to most elements.
func growingTo(b *testing.B, most int, do func(b *testing.B, n int)) {
	for n := 10; n <= most; n *= 10 {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				do(b, n)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/each")
		})
	}
}

// informer is the informer under test.
type informer = sharedinformer.Informer[*corev1.ConfigMap]

// follow runs an informer of a cluster, until do has returned.
func follow(b *testing.B, from *cluster, opts sharedinformer.Options, do func(context.Context, *informer)) {
	opts.Logger, opts.Initial = slog.New(slog.DiscardHandler), reflector.List
	i := sharedinformer.New[*corev1.ConfigMap](from, opts)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	wait, err := i.Start(ctx)
	require.NoError(b, err)
	require.NoError(b, i.WaitForSync(ctx))
	do(ctx, i)
	cancel()
	require.NoError(b, wait())
}

// cluster is a source with some objects and changes.
type cluster struct {
	things  []object.Head
	changes chan *corev1.ConfigMap
}

func newCluster(things int) *cluster {
	c := &cluster{changes: make(chan *corev1.ConfigMap)}
	for n := range things {
		c.things = append(c.things, thing(n, 1))
	}
	return c
}

func (*cluster) Describe() source.Description {
	return source.Description{Name: "things", Narrows: true}
}

func (c *cluster) List(context.Context, source.Request) source.List[object.Head] {
	items := func(yield func(object.Head, error) bool) {
		for _, o := range c.things {
			if !yield(o, nil) {
				return
			}
		}
	}
	return source.List[object.Head]{Items: items, Meta: &metav1.ListMeta{ResourceVersion: "1"}}
}

func (c *cluster) Watch(ctx context.Context, _ source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	return func(yield func(wire.Event[object.Head], error) bool) {
		for {
			select {
			case <-ctx.Done():
				yield(wire.Event[object.Head]{}, ctx.Err())
				return
			case o := <-c.changes:
				if !yield(wire.Event[object.Head]{Type: watch.Modified, Object: o}, nil) {
					return
				}
			}
		}
	}, nil
}

func thing(n, rv int) *corev1.ConfigMap {
	name := fmt.Sprint("thing-", n)
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: types.UID(name), ResourceVersion: fmt.Sprint(rv), Labels: map[string]string{"name": name},
	}}
}

func names(n int) (all []string) {
	for at := range n {
		all = append(all, fmt.Sprint("n", at))
	}
	return all
}

// BenchmarkNamespaces starts an informer of n namespaces and stops it.
func BenchmarkNamespaces(b *testing.B) {
	growing(b, func(b *testing.B, n int) {
		follow(b, newCluster(0), sharedinformer.Options{Namespaces: names(n)}, func(context.Context, *informer) {})
	})
}

// BenchmarkNamespacesAdded adds a namespace to n others.
func BenchmarkNamespacesAdded(b *testing.B) {
	growing(b, func(b *testing.B, n int) {
		all := names(n)
		follow(b, newCluster(0), sharedinformer.Options{Namespaces: []string{}}, func(_ context.Context, i *informer) {
			for upTo := n / 10; upTo <= n; upTo += n / 10 {
				require.NoError(b, i.SetNamespaces(all[:upTo]))
			}
		})
	})
}

// BenchmarkHandlers delivers one change to n handlers.
func BenchmarkHandlers(b *testing.B) {
	growing(b, func(b *testing.B, n int) {
		from := newCluster(1)
		follow(b, from, sharedinformer.Options{}, func(_ context.Context, i *informer) {
			var told sync.WaitGroup
			told.Add(2 * n) // for the existing object and for the change
			for range n {
				i.AddHandler(sharedinformer.HandlerFunc[*corev1.ConfigMap](func(context.Context, sharedinformer.Event[*corev1.ConfigMap]) error {
					told.Done()
					return nil
				}))
			}
			from.changes <- thing(0, 100)
			told.Wait()
		})
	})
}

// BenchmarkFailures delivers n changes to a handler that always fails.
func BenchmarkFailures(b *testing.B) {
	growing(b, func(b *testing.B, n int) {
		from := newCluster(0)
		follow(b, from, sharedinformer.Options{}, func(_ context.Context, i *informer) {
			var told sync.WaitGroup
			told.Add(n)
			i.AddHandler(sharedinformer.HandlerFunc[*corev1.ConfigMap](func(context.Context, sharedinformer.Event[*corev1.ConfigMap]) error {
				told.Done()
				return errors.New("no")
			}))
			for at := range n {
				from.changes <- thing(at, 100+at)
			}
			told.Wait()
		})
	})
}

// BenchmarkWaits has n goroutines wait for a version of the cache, which is reached after n
// changes.
func BenchmarkWaits(b *testing.B) {
	growing(b, func(b *testing.B, n int) {
		from := newCluster(1)
		follow(b, from, sharedinformer.Options{}, func(ctx context.Context, i *informer) {
			var waits sync.WaitGroup
			for range n {
				waits.Go(func() { _ = i.WaitForRV(ctx, fmt.Sprint(100+n)) })
			}
			for at := range n + 1 {
				from.changes <- thing(0, 100+at)
			}
			waits.Wait()
		})
	})
}

// BenchmarkIndexValues changes an object with n index values.
func BenchmarkIndexValues(b *testing.B) {
	growing(b, func(b *testing.B, n int) {
		from := newCluster(1)
		follow(b, from, sharedinformer.Options{}, func(ctx context.Context, i *informer) {
			values := names(n)
			sharedinformer.AddIndex(i, "values", func(*corev1.ConfigMap) []string { return values })
			from.changes <- thing(0, 100)
			require.NoError(b, i.WaitForRV(ctx, "100"))
		})
	})
}

// BenchmarkSelector lists n objects with a selector of n values.
func BenchmarkSelector(b *testing.B) {
	growing(b, func(b *testing.B, n int) {
		values := names(n)
		from := newCluster(n)
		chosen, err := labels.Parse("name in (" + strings.Join(values, ",") + ")")
		require.NoError(b, err)
		follow(b, from, sharedinformer.Options{}, func(_ context.Context, i *informer) {
			require.Empty(b, slices.Collect(i.Cache().Select(chosen)))
		})
	})
}

// BenchmarkPriorities adds n keys with n priorities to a queue, and gets them.
func BenchmarkPriorities(b *testing.B) {
	growingTo(b, 100_000, func(b *testing.B, n int) {
		q := workqueue.New(workqueue.Options[int]{Name: "keys"})
		for key := range n {
			q.AddWith(workqueue.AddOptions{Priority: key}, key)
		}
		for range n {
			key, err := q.Get(b.Context())
			require.NoError(b, err)
			q.Done(key)
		}
		q.ShutDown()
	})
}

// BenchmarkDelays adds n keys with n delays to a queue, and cancels them.
func BenchmarkDelays(b *testing.B) {
	growing(b, func(b *testing.B, n int) {
		q := workqueue.New(workqueue.Options[int]{Name: "keys"})
		for key := range n {
			q.AddAfter(key, time.Duration(1+key)*time.Hour)
		}
		for key := range n {
			q.Cancel(key)
		}
		q.ShutDown()
	})
}
