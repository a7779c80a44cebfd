package scenario

import (
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

// Sleeper is a handler whose first call blocks until the sleeper is woken.
type Sleeper struct {
	until uint64
	wake  chan struct{}
	awake sync.Once
	done  chan struct{}
	ended sync.Once
}

// NewSleeper returns a sleeper that is done after the event with the given resource version.
func NewSleeper(until uint64) *Sleeper {
	return &Sleeper{until: until, wake: make(chan struct{}), done: make(chan struct{})}
}

// Hear sleeps in the first call.
func (s *Sleeper) Hear(o metav1.Object) {
	<-s.wake
	if rv, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64); err == nil && rv >= s.until {
		s.ended.Do(func() { close(s.done) })
	}
}

// sampleEvery is the interval at which Oversleep measures the heap.
const sampleEvery = 50 * time.Millisecond

// Oversleep feeds events to a listener and to a sleeper, which is woken when the listener has received all
// events. In s.Metrics it records how much the live heap grew after the first tenth of the events, and how
// long the sleeper needed to catch up.
func Oversleep(s *protocol.Session, begin func(), l *Listener, sleeper *Sleeper) error {
	protocol.HeapInUse() // don't measure collection of the setup's garbage
	if err := s.Mark(protocol.MarkBegin); err != nil {
		return err
	}
	begin()
	early := int64(0)
	for asleep := true; asleep; {
		if early == 0 && l.Heard() >= int64(s.Params[Events]/10) {
			early = s.Live()
		}
		select {
		case <-l.Done():
			asleep = false
		case <-time.After(sampleEvery):
		}
	}
	late := s.Live()
	if err := s.Mark(protocol.MarkDone); err != nil {
		return err
	}
	woken := time.Now()
	sleeper.awake.Do(func() { close(sleeper.wake) })
	<-sleeper.done
	s.Metrics = map[string]float64{
		results.Held:     float64(max(0, late-early)),
		results.CaughtUp: time.Since(woken).Seconds(),
	}
	return nil
}
