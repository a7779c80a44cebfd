package controller

import "sync"

// streaks counts how often a request has failed in a row. The back-off does not
// tell: a reconcile that asks for another one without an error lengthens it too.
type streaks struct {
	mu   sync.Mutex // guards all below; nothing is called while it is held
	of   map[Request]int
	most int // the largest len(of) since of was made
}

// next is the number of the attempt that begins.
func (s *streaks) next(req Request) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[req] + 1
}

// failed says that an attempt of this number has failed and is followed by another.
func (s *streaks) failed(req Request, number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = make(map[Request]int)
	}
	s.of[req] = number
	s.most = max(s.most, len(s.of))
}

// end says that the next attempt is a first one.
func (s *streaks) end(req Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, req)
	if len(s.of) == 0 && s.most > 1000 { // a map does not shrink
		s.of, s.most = nil, 0
	}
}
