package scenario

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

// OnTheWay is the largest number of events between the feed and the handler while readers read, as in
// client-go's own benchmark of this kind. Without this bound, the faster informer would be measured with
// a longer queue.
const OnTheWay = 10

// ReaderSteps are the steps that ReadWhile measures.
type ReaderSteps struct {
	// Go starts the events, and Stop ends them.
	Go, Stop func()

	// List visits each cached object of a namespace and returns their number. It does not look into them,
	// because that costs every informer the same and would dominate with many objects.
	List func(namespace string) (int, error)

	// Heard returns the number of events that have passed through the cache.
	Heard func() int64
}

// ReadWhile lets Params.Readers goroutines list namespaces during events, for Params.Millis, and counts
// reads and writes.
func ReadWhile(ctx context.Context, s *protocol.Session, namespaces []string, steps ReaderSteps) (*protocol.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(s.Params[Millis])*time.Millisecond)
	defer cancel()
	protocol.HeapInUse() // exclude collecting the garbage of the setup
	if err := s.Mark(protocol.MarkBegin); err != nil {
		return nil, err
	}
	began := time.Now()
	steps.Go()
	var reads atomic.Int64
	var failure atomic.Pointer[error]
	var tasks sync.WaitGroup
	for r := range s.Params[Readers] {
		tasks.Go(func() {
			for i := r; ctx.Err() == nil; i++ {
				n, err := steps.List(namespaces[i%len(namespaces)])
				if err == nil && n == 0 {
					err = fmt.Errorf("namespace %s is empty", namespaces[i%len(namespaces)])
				}
				if err != nil {
					failure.Store(new(err)) // a copy, so that err stays off the heap
					return
				}
				reads.Add(1)
			}
		})
	}
	<-ctx.Done()
	heard, took := steps.Heard(), time.Since(began)
	tasks.Wait()
	steps.Stop()
	if err := s.Mark(protocol.MarkDone); err != nil {
		return nil, err
	}
	if err := failure.Load(); err != nil {
		return nil, *err
	}
	metrics := map[string]float64{results.WritesPerSec: float64(heard) / took.Seconds()}
	if s.Params[Readers] > 0 {
		metrics[results.ReadsPerSec] = float64(reads.Load()) / took.Seconds()
	}
	return &protocol.Result{Metrics: metrics}, nil
}
