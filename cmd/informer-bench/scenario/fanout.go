package scenario

import (
	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

// Fanout starts the events and waits until all listeners have received the last one. It records the number of
// allocations in s.Metrics.
func Fanout(s *protocol.Session, begin func(), listeners []*Listener) error {
	protocol.HeapInUse() // don't measure collection of the setup's garbage
	if err := s.Mark(protocol.MarkBegin); err != nil {
		return err
	}
	before := protocol.Mallocs()
	begin()
	for _, l := range listeners {
		<-l.Done()
	}
	allocations := protocol.Mallocs() - before
	if err := s.Mark(protocol.MarkDone); err != nil {
		return err
	}
	s.Metrics = map[string]float64{results.AllocsPerEvent: float64(allocations) / float64(s.Params[Events])}
	return nil
}
