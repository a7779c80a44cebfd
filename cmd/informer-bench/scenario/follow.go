package scenario

import (
	"maps"
	"runtime/debug"
	"time"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

// Follow sets the marks of a contestant that keeps a cache of the server's objects: now,
// when it is synced, and when all listeners have heard the last event, if there are any.
// What it has measured in between is in s.Metrics.
func Follow(s *protocol.Session, listeners []*Listener) error {
	if s.Params.On(Collected) {
		debug.FreeOSMemory() // what the list left is not the memory of what follows
	}
	if err := s.Mark(protocol.MarkSynced); err != nil {
		return err
	}
	if s.Scenario == "restart" {
		first := time.Unix(0, listeners[0].first.Load())
		s.Metrics = map[string]float64{results.FirstCall: first.Sub(s.Began).Seconds()}
	}
	if s.Until == 0 {
		return nil
	}
	before := collections()
	for _, l := range listeners {
		<-l.Done()
	}
	after := collections()
	if err := s.Mark(protocol.MarkDone); err != nil {
		return err
	}
	s.Metrics = Latencies(listeners...)
	if s.Params.On(Collected) {
		s.Metrics = after.since(before)
		maps.Copy(s.Metrics, Latencies(listeners...))
	}
	return nil
}
