package sharedinformer

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
	"github.com/stretchr/testify/require"
)

// quiet is a source without objects or events.
type quiet struct{}

func (quiet) Describe() source.Description { return source.Description{Name: "things"} }

func (quiet) List(context.Context, source.Request) source.List[object.Head] {
	return source.List[object.Head]{Items: func(func(object.Head, error) bool) {}, Meta: &metav1.ListMeta{ResourceVersion: "1"}}
}

func (quiet) Watch(ctx context.Context, _ source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	return func(yield func(wire.Event[object.Head], error) bool) {
		<-ctx.Done()
		yield(wire.Event[object.Head]{}, ctx.Err())
	}, nil
}

// BenchmarkFanOut measures the pipeline without network and decoding. One operation is one event, from
// the queue through the cache to every handler.
func BenchmarkFanOut(b *testing.B) {
	for _, handlers := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("handlers=%d", handlers), func(b *testing.B) {
			i := New[partial](quiet{}, Options{Initial: reflector.List})
			var heard sync.WaitGroup
			for range handlers {
				i.AddHandler(HandlerFunc[partial](func(context.Context, Event[partial]) error { heard.Done(); return nil }))
			}
			ctx, cancel := context.WithCancel(b.Context())
			ended := make(chan error)
			go func() { ended <- i.Run(ctx) }()
			if err := i.WaitForSync(ctx); err != nil {
				b.Fatal(err)
			}
			const objects = 1000
			versions := [2][objects]partial{}
			for n := range objects {
				versions[0][n], versions[1][n] = thing(fmt.Sprint(n), n, 1), thing(fmt.Sprint(n), n, 2)
			}
			sent := 0
			for b.Loop() {
				if sent%256 == 0 {
					heard.Wait()
				}
				heard.Add(handlers)
				o := versions[sent/objects%2][sent%objects]
				i.core.(*core).queue.Add(deltafifo.Delta{Type: deltafifo.Updated, Key: object.KeyOf(o), Object: o, RV: o.ResourceVersion})
				sent++
			}
			heard.Wait()
			b.StopTimer()
			cancel()
			if err := <-ended; err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkLateHandler measures a handler that joins when 10,000 objects are cached. One operation is
// all of its initial Adds.
func BenchmarkLateHandler(b *testing.B) {
	b.ReportAllocs()
	i := New[partial](quiet{}, Options{Initial: reflector.List})
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error)
	go func() { ended <- i.Run(ctx) }()
	const objects = 10_000
	d := deltafifo.Delta{Type: deltafifo.Replaced, RV: "2"}
	for n := range objects {
		d.Items = append(d.Items, thing(fmt.Sprint(n), n, 2))
	}
	i.core.(*core).queue.Add(d)
	if err := i.WaitForRV(ctx, "2"); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		r := i.AddHandler(HandlerFunc[partial](func(context.Context, Event[partial]) error { return nil }))
		if err := r.WaitForSync(ctx); err != nil {
			b.Fatal(err)
		}
		r.Close()
	}
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}

// A handler that joins late receives each object without an allocation.
func TestALateHandlerAllocatesNothingAnObject(t *testing.T) {
	const many = 10_000
	i := informerOf(newFixed(things(many)...), Options{})
	defer runFor(t, i)()
	require.NoError(t, i.WaitForSync(t.Context()))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	i.AddHandler(HandlerFunc[partial](func(context.Context, Event[partial]) error { return nil }))
	require.NoError(t, i.WaitForSync(t.Context()))
	runtime.ReadMemStats(&after)
	require.Less(t, after.Mallocs-before.Mallocs, uint64(many/2))
}
