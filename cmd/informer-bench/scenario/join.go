package scenario

import (
	"fmt"
	"time"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
)

// Join feeds events to a listener. A third of the way through, it calls join to add another handler, and
// waits for it to return.
func Join(s *protocol.Session, begin func(), l *Listener, pauses *Pauses, join func() error) error {
	protocol.HeapInUse() // don't measure collection of the setup's garbage
	if err := s.Mark(protocol.MarkBegin); err != nil {
		return err
	}
	began := time.Now()
	begin()
	events, perSecond := s.Params[Events], s.Params[PerSecond]
	time.Sleep(time.Until(began.Add(time.Duration(events/3) * time.Second / time.Duration(perSecond))))
	pauses.joinBegan.Store(time.Now().UnixNano())
	if err := join(); err != nil {
		return err
	}
	pauses.joinEnded.Store(time.Now().UnixNano())
	select {
	case <-l.Done():
		return fmt.Errorf("no events were left when the handler had joined: use more objects")
	default:
	}
	<-l.Done()
	return s.Mark(protocol.MarkDone)
}
