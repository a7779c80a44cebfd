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

// OnTheWay limits the number of events in flight between the feed and the handler, as client-go's own
// benchmark of this kind does. Without it, the faster informer would be measured with the longer queue.
const OnTheWay = 10

// ReaderSteps contains the steps measured by ReadWhile.
type ReaderSteps struct {
	// Go starts the events and Stop stops them.
	Go, Stop func()

	// List visits all cached objects in a namespace and returns their number. It does not access their
	// fields: that costs the same with every informer, and would dominate the result if there are many
	// objects.
	List func(namespace string) (int, error)

	// Heard returns the number of events that have passed through the cache.
	Heard func() int64
}

// ReadWhile runs Params.Readers goroutines that list namespaces while events arrive. It stops after
// Params.Millis and counts reads and writes.
func ReadWhile(ctx context.Context, s *protocol.Session, namespaces []string, steps ReaderSteps) (*protocol.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(s.Params[Millis])*time.Millisecond)
	defer cancel()
	protocol.HeapInUse() // don't measure collection of the setup's garbage
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
