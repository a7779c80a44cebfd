package main

import (
	"sync"
	"time"

	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

// sampleEvery is the interval between samples of a contestant's memory.
const sampleEvery = 20 * time.Millisecond

// sampler records the resident memory of a process over time, in a goroutine that runs until end.
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
				return // the process has ended; converse reports that
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

// end stops the goroutine and returns its samples. For a nil sampler it returns none.
func (s *sampler) end() []results.Point {
	if s == nil {
		return nil
	}
	close(s.stop)
	s.task.Wait()
	return s.points
}
