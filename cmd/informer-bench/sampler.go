package main

import (
	"sync"
	"time"

	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

// sampleEvery is the interval between samples of a contestant's memory.
const sampleEvery = 20 * time.Millisecond

// sampler records a process's resident memory over time. Its goroutine runs until end is called.
type sampler struct {
	stop   chan struct{}
	task   sync.WaitGroup
	points []results.Point // owned by the goroutine until end
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
				return // the process has exited, which converse reports
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

// end stops the goroutine and returns its samples. A nil sampler has none.
func (s *sampler) end() []results.Point {
	if s == nil {
		return nil
	}
	close(s.stop)
	s.task.Wait()
	return s.points
}
