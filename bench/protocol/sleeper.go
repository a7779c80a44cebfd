package protocol

import (
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Sleeper is a handler that sleeps in its first call until it is woken.
type Sleeper struct {
	until uint64
	wake  chan struct{}
	awake sync.Once
	done  chan struct{}
	ended sync.Once
}

// NewSleeper returns one that is done with the event of that resource version.
func NewSleeper(until uint64) *Sleeper {
	return &Sleeper{until: until, wake: make(chan struct{}), done: make(chan struct{})}
}

// Hear sleeps at first.
func (s *Sleeper) Hear(o metav1.Object) {
	<-s.wake
	if rv, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64); err == nil && rv >= s.until {
		s.ended.Do(func() { close(s.done) })
	}
}

// sampleEvery is how often Oversleep looks at the heap.
const sampleEvery = 50 * time.Millisecond

// Oversleep lets events come to a listener and a sleeper, which is woken when
// the listener has heard all. It measures in s.Metrics by how much the live
// heap grew meanwhile from the first tenth of the events on, and how long the
// sleeper took to be up to date.
func Oversleep(s *Session, begin func(), l *Listener, sleeper *Sleeper) error {
	inUse() // the collection of what the preparation left is not measured
	if err := s.Mark(MarkBegin); err != nil {
		return err
	}
	begin()
	early := uint64(0)
	for asleep := true; asleep; {
		if early == 0 && l.Heard() >= int64(s.Params[Events]/10) {
			early = inUse()
		}
		select {
		case <-l.Done():
			asleep = false
		case <-time.After(sampleEvery):
		}
	}
	if early == 0 {
		early = s.before
	}
	late := inUse()
	if err := s.Mark(MarkDone); err != nil {
		return err
	}
	woken := time.Now()
	sleeper.awake.Do(func() { close(sleeper.wake) })
	<-sleeper.done
	s.Metrics = map[string]float64{
		"held_bytes":  max(0, float64(late)-float64(early)),
		"caught_up_s": time.Since(woken).Seconds(),
	}
	return nil
}
