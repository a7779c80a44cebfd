package scenario

import (
	"maps"
	"runtime/debug"
	"time"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

// Follow sets the marks for a contestant that caches the server's objects: immediately, when it has synced
// and, if there are listeners, when all of them have received the last event. It stores measurements in
// s.Metrics.
func Follow(s *protocol.Session, listeners []*Listener) error {
	if s.Params.On(Collected) {
		debug.FreeOSMemory() // don't count memory left over from the list
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
