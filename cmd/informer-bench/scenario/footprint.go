package scenario

import (
	"runtime"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

// FootprintSteps contains the steps measured by Footprint.
type FootprintSteps struct {
	// Sync creates an informer, waits until it has synced, and returns its result.
	Sync func() (*protocol.Result, error)

	// Handler adds a handler to the informer and waits until it has received all objects.
	Handler func() error

	// Keep is called last. Everything it refers to stays reachable until then.
	Keep func()
}

// footprintHandlers is the number of handlers to average over.
const footprintHandlers = 100

// Footprint measures the cost of an informer and of an idle handler, in goroutines and in bytes of heap and
// stack.
func Footprint(s *protocol.Session, steps FootprintSteps) (*protocol.Result, error) {
	before := runtime.NumGoroutine()
	result, err := steps.Sync()
	if err != nil {
		return nil, err
	}
	synced, bytes := runtime.NumGoroutine(), held()
	for range footprintHandlers {
		if err := steps.Handler(); err != nil {
			return nil, err
		}
	}
	if err := s.Mark(protocol.MarkSynced); err != nil {
		return nil, err
	}
	result.Metrics = map[string]float64{
		results.InformerGoroutines: float64(synced - before),
		results.HandlerGoroutines:  float64(runtime.NumGoroutine()-synced) / footprintHandlers,
		results.HandlerBytes:       (held() - bytes) / footprintHandlers,
	}
	steps.Keep()
	return result, nil
}

// held returns the heap and stack memory in use after two garbage collections.
func held() float64 {
	live := protocol.HeapInUse()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(live + m.StackInuse)
}
