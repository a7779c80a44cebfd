package scenario

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

// Queue contains the work queue operations to measure.
type Queue interface {
	Add(key types.NamespacedName)
	AddAfter(key types.NamespacedName, delay time.Duration)
	Get() (types.NamespacedName, error)
	Done(key types.NamespacedName)
}

// workDelay is the maximum delay for delayed adds.
const workDelay = 100 * time.Millisecond

// WorkQueue sends Params.Events keys through a queue. Each of Params.Workers workers repeatedly adds a key,
// then gets one and marks it done. If Params.Delayed is set, all keys are first added with delays of up to a
// tenth of a second.
func WorkQueue(s *protocol.Session, q Queue) (*protocol.Result, error) {
	workers := max(1, s.Params[Workers])
	each := s.Params[Events] / workers
	keys := make([]types.NamespacedName, each*workers)
	for i := range keys {
		keys[i] = types.NamespacedName{Namespace: "bench", Name: fmt.Sprintf("key-%07d", i)}
	}
	protocol.HeapInUse() // don't measure collection of the setup's garbage
	if err := s.Mark(protocol.MarkBegin); err != nil {
		return nil, err
	}
	before := protocol.Mallocs()
	delayed := s.Params.On(Delayed)
	if delayed {
		for i, key := range keys {
			q.AddAfter(key, workDelay*time.Duration(i%97)/97)
		}
	}
	var got atomic.Int64
	var failure atomic.Pointer[error]
	var tasks sync.WaitGroup
	for w := range workers {
		tasks.Go(func() {
			for _, key := range keys[w*each : (w+1)*each] {
				if !delayed {
					q.Add(key)
				}
				next, err := q.Get()
				if err != nil {
					failure.Store(new(err)) // a copy, so that err stays off the heap
					return
				}
				q.Done(next)
			}
			got.Add(int64(each))
		})
	}
	tasks.Wait()
	allocations := protocol.Mallocs() - before
	if err := s.Mark(protocol.MarkDone); err != nil {
		return nil, err
	}
	if err := failure.Load(); err != nil {
		return nil, *err
	}
	return &protocol.Result{Heard: got.Load(), Metrics: map[string]float64{results.AllocsPerEvent: float64(allocations) / float64(len(keys))}}, nil
}
