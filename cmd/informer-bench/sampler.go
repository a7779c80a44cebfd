package main

import (
	"sync"
	"time"

	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

// sampleEvery is how often the memory of a contestant is looked at where it is
// wanted over time.
const sampleEvery = 20 * time.Millisecond

// sampler notes the resident memory of a process over time, in a goroutine that
// lives until end.
type sampler struct {
	stop   chan struct{}
	task   sync.WaitGroup
	points []results.Point // of the goroutine, until end
}

func startSampler(pid int) *sampler {
	s := &sampler{stop: make(chan struct{})}
	began := time.Now()
	s.task.Go(func() {
		tick := time.NewTicker(sampleEvery)
		defer tick.Stop()
		for {
			resident, _, err := memory(pid)
			if err != nil {
				return // the process has gone, which whoever talks to it will report
			}
			s.points = append(s.points, results.Point{T: time.Since(began).Seconds(), V: float64(resident)})
			select {
			case <-tick.C:
			case <-s.stop:
				return
			}
		}
	})
	return s
}

// end stops the goroutine and returns what it has noted. A nil sampler has
// noted nothing.
func (s *sampler) end() []results.Point {
	if s == nil {
		return nil
	}
	close(s.stop)
	s.task.Wait()
	return s.points
}
