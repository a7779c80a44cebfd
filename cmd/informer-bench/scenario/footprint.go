package scenario

import (
	"runtime"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

// FootprintSteps are what Footprint measures.
type FootprintSteps struct {
	// Sync makes an informer, waits until it is synced, and gives account.
	Sync func() (*protocol.Result, error)

	// Handler adds one handler to it and waits until it has heard all.
	Handler func() error

	// Keep is called at the end, so that nothing is collected before.
	Keep func()
}

// footprintHandlers is over how many handlers is averaged.
const footprintHandlers = 100

// Footprint counts what an informer and a handler that is idle cost:
// goroutines, and bytes of heap and stacks.
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

// held is the memory in use by heap and stacks after two collections.
func held() float64 {
	live := protocol.HeapInUse()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(live + m.StackInuse)
}
