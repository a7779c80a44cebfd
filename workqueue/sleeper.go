package workqueue

// sleepers are the workers waiting in Get. The last worker to fall asleep is woken first, because its stack
// and data are still in the CPU's cache. Under light load, only a few workers are therefore ever busy.
//
// A wake-up is a hint to try again, not a key. A worker that does not need it passes it on.
type sleepers struct {
	asleep []*sleeper
	spare  []*sleeper // reused, so falling asleep does not allocate
}

// sleeper is one waiting worker. Its channel buffers one wake-up, so waking never blocks.
type sleeper struct {
	wake   chan struct{}
	at     int // its index in asleep
	asleep bool
}

func (s *sleepers) enter() *sleeper {
	var w *sleeper
	if last := len(s.spare) - 1; last >= 0 {
		w, s.spare = s.spare[last], s.spare[:last]
	} else {
		w = &sleeper{wake: make(chan struct{}, 1)}
	}
	w.at, w.asleep = len(s.asleep), true
	s.asleep = append(s.asleep, w)
	return w
}

// leave ends w's sleep, whether w was woken or gave up, and keeps w for reuse.
func (s *sleepers) leave(w *sleeper) {
	if w.asleep {
		last := len(s.asleep) - 1
		moved := s.asleep[last]
		s.asleep[w.at], moved.at = moved, w.at
		s.asleep[last] = nil
		s.asleep = s.asleep[:last]
		w.asleep = false
	} else {
		select {
		case <-w.wake:
		default:
		}
	}
	s.spare = append(s.spare, w)
}

func (s *sleepers) wakeOne() {
	last := len(s.asleep) - 1
	if last < 0 {
		return
	}
	w := s.asleep[last]
	s.asleep[last] = nil
	s.asleep = s.asleep[:last]
	w.asleep = false
	w.wake <- struct{}{}
}

func (s *sleepers) wakeAll() {
	for len(s.asleep) > 0 {
		s.wakeOne()
	}
}
