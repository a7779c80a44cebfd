package scenario

import (
	"fmt"
	"time"

	"github.com/millrace-dev/millrace/cmd/informer-bench/protocol"
)

// Join feeds events to a listener and, after a third of them, adds another handler with join and waits for
// it.
func Join(s *protocol.Session, begin func(), l *Listener, pauses *Pauses, join func() error) error {
	protocol.HeapInUse() // exclude collecting the garbage of the setup
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
		return fmt.Errorf("the events ended before the handler had joined: use more objects")
	default:
	}
	<-l.Done()
	return s.Mark(protocol.MarkDone)
}
