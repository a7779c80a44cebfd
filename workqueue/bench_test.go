package workqueue_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/workqueue"
)

func benchKeys(n int) []types.NamespacedName {
	keys := make([]types.NamespacedName, n)
	for i := range keys {
		keys[i] = types.NamespacedName{Namespace: fmt.Sprintf("namespace-%d", i%50), Name: fmt.Sprintf("pod-%d-abcde", i)}
	}
	return keys
}

// BenchmarkAddGetDone is one worker that adds, gets and ends keys: the cost of
// the queue alone.
func BenchmarkAddGetDone(b *testing.B) {
	b.Run("int", func(b *testing.B) { addGetDone(b, []int{0, 1, 2, 3, 4, 5, 6, 7}, workqueue.Options[int]{}) })
	b.Run("name", func(b *testing.B) {
		addGetDone(b, benchKeys(8), workqueue.Options[types.NamespacedName]{})
	})
	b.Run("name-of-10000", func(b *testing.B) {
		addGetDone(b, benchKeys(10000), workqueue.Options[types.NamespacedName]{})
	})
	b.Run("name-timestamps", func(b *testing.B) {
		addGetDone(b, benchKeys(8), workqueue.Options[types.NamespacedName]{Timestamps: true})
	})
}

func addGetDone[K comparable](b *testing.B, keys []K, opts workqueue.Options[K]) {
	q := workqueue.New(opts)
	defer q.ShutDown()
	ctx := context.Background()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		q.Add(keys[i])
		key, _ := q.Get(ctx)
		q.Done(key)
		if i++; i == len(keys) {
			i = 0
		}
	}
}

// BenchmarkAddWork is BenchmarkAddGetDone with the iterator.
func BenchmarkAddWork(b *testing.B) {
	keys := benchKeys(8)
	q := workqueue.New(workqueue.Options[types.NamespacedName]{})
	defer q.ShutDown()
	b.ReportAllocs()
	q.Add(keys[0])
	i := 1
	for range q.Work(b.Context()) {
		if !b.Loop() {
			break
		}
		q.Add(keys[i&7])
		i++
	}
}

// BenchmarkContended is eight workers that each add, get and end keys of one
// queue at the same time. No key comes twice, so that no adds merge and each
// add brings a key to get.
func BenchmarkContended(b *testing.B) {
	q := workqueue.New(workqueue.Options[int64]{})
	defer q.ShutDown()
	ctx := context.Background()
	var workers atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(max(8/runtime.GOMAXPROCS(0), 1))
	b.RunParallel(func(pb *testing.PB) {
		for key := workers.Add(1) << 40; pb.Next(); key++ {
			q.Add(key)
			got, _ := q.Get(ctx)
			q.Done(got)
		}
	})
}

// BenchmarkHandOver is one goroutine that adds keys for eight workers who have
// nothing to do but to take them: how often they are woken decides.
func BenchmarkHandOver(b *testing.B) {
	q := workqueue.New(workqueue.Options[int]{})
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for range q.Work(context.Background()) {
			}
		})
	}
	b.ReportAllocs()
	b.ResetTimer()
	for key := range b.N {
		q.Add(key)
	}
	_ = q.Drain(context.Background())
	workers.Wait()
}

// BenchmarkBurst is 64 keys at a time, for eight workers who have all gone to
// sleep since the last burst.
func BenchmarkBurst(b *testing.B) {
	const burst = 64
	q := workqueue.New(workqueue.Options[int]{})
	var done sync.WaitGroup
	for range 8 {
		go func() {
			for range q.Work(context.Background()) {
				done.Done()
			}
		}()
	}
	b.ReportAllocs()
	for b.Loop() {
		done.Add(burst)
		for key := range burst {
			q.Add(key)
		}
		done.Wait()
	}
	q.ShutDown()
}

// BenchmarkAddAfter adds keys with a delay; after the first round each add
// merges with a delayed one.
func BenchmarkAddAfter(b *testing.B) {
	q := workqueue.New(workqueue.Options[types.NamespacedName]{})
	defer q.ShutDown()
	keys := benchKeys(1024)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		q.AddAfter(keys[i&1023], time.Hour)
		i++
	}
}

// BenchmarkManyDelayed is AddAfter and Cancel among 100,000 delayed keys.
func BenchmarkManyDelayed(b *testing.B) {
	q := workqueue.New(workqueue.Options[int]{})
	defer q.ShutDown()
	const n = 100_000
	for i := range n {
		q.AddAfter(i, time.Hour+time.Duration(i*7919%n)*time.Millisecond)
	}
	b.ReportAllocs()
	i := n
	for b.Loop() {
		q.AddAfter(i, time.Hour+time.Duration(i*7919%n)*time.Millisecond)
		q.Cancel(i - n)
		i++
	}
}
