package protocol

// Fanout lets events come and waits until all listeners have heard the last. It
// counts allocations in s.Metrics.
func Fanout(s *Session, begin func(), listeners []*Listener) error {
	inUse() // the collection of what the preparation left is not measured
	if err := s.Mark(MarkBegin); err != nil {
		return err
	}
	before := Mallocs()
	begin()
	for _, l := range listeners {
		<-l.Done()
	}
	allocations := Mallocs() - before
	if err := s.Mark(MarkDone); err != nil {
		return err
	}
	s.Metrics = map[string]float64{"allocs_per_event": float64(allocations) / float64(s.Params[Events])}
	return nil
}
