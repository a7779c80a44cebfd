package workqueue

import (
	"context"
	"errors"
	"fmt"
)

// ErrShutDown means that a queue hands out no more keys because ShutDown or Drain was called.
var ErrShutDown = errors.New("work queue is shut down")

// State is a queue's lifecycle state. It never decreases.
type State uint8

const (
	// Open means that keys are accepted and handed out.
	Open State = iota
	// Draining means that no keys are accepted, but waiting keys are still handed out.
	Draining
	// ShutDown means that keys are neither accepted nor handed out. Running work may finish.
	ShutDown
)

// String returns the state's name in lower case.
func (s State) String() string {
	switch s {
	case Open:
		return "open"
	case Draining:
		return "draining"
	case ShutDown:
		return "shut down"
	default:
		return fmt.Sprintf("State(%d)", uint8(s))
	}
}

// MarshalText makes the state readable in JSON.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// ShutDown stops the queue immediately: waiting and delayed keys are dropped and counted in Status.Dropped,
// and blocked and later Gets return ErrShutDown. It does not wait for running work, which must still call
// Done; call Drain to wait for that. Further calls do nothing.
func (q *Queue[K]) ShutDown() {
	q.close(ShutDown)
}

// Drain finishes the queue: it accepts no more keys, and returns nil when every waiting key has been handed
// out and every running key, including keys added again while running, is done. Workers must keep calling Get
// until it returns ErrShutDown.
//
// Delayed adds, including retries, are dropped and counted in Status.Dropped: waiting for them could take
// hours, and handing them out early would defeat the back-off. Keys added by workers while the queue drains
// are dropped too, because otherwise draining might never end.
//
// If ctx is done first, Drain returns an error that contains the cause and the remaining work, and the
// queue keeps draining. Call Drain again to continue waiting, or ShutDown to drop the waiting keys. After
// ShutDown, Drain waits only for the running work. It may be called concurrently.
func (q *Queue[K]) Drain(ctx context.Context) error {
	q.close(Draining)
	select {
	case <-q.drained:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-q.drained:
		return nil
	default:
	}
	s := q.Status()
	return fmt.Errorf("drain work queue %q: %d keys waiting, %d running: %w",
		q.name, s.Waiting+s.Again, s.Running, context.Cause(ctx))
}

// ShuttingDown reports whether ShutDown or Drain has been called; keys added since then are dropped.
func (q *Queue[K]) ShuttingDown() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.state != Open
}

func (q *Queue[K]) errShutDown() error {
	if q.name == "" {
		return ErrShutDown
	}
	return fmt.Errorf("%q: %w", q.name, ErrShutDown)
}

// close advances the queue to a later state.
func (q *Queue[K]) close(to State) {
	settled := q.advance(to)
	// A firing timer needs only the lock, which is free now, so this waits for microseconds at most.
	// Afterwards no goroutine is left.
	q.alarm.flights.Wait()
	if settled && q.metrics != nil {
		q.metrics.unregister()
	}
}

func (q *Queue[K]) advance(to State) (settled bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state >= to {
		return false
	}
	q.state = to
	q.dropDelayed()
	if to == ShutDown {
		q.dropWaiting()
	}
	return q.settle()
}

func (q *Queue[K]) dropDelayed() {
	for _, slot := range q.delays.slots {
		slot.it.want = wantNothing
		if !slot.it.running {
			q.items.remove(slot.it)
		}
		q.counts.dropped++
	}
	q.delays.slots = nil
	q.alarm.stop()
}

func (q *Queue[K]) dropWaiting() {
	for it := q.waiting.head; it != nil; it = q.waiting.head {
		q.waiting.remove(it)
		if q.order != nil {
			q.order.remove(it.key)
		} else {
			q.ranking.remove(it)
		}
		q.items.remove(it)
		q.counts.dropped++
	}
	for it := q.running.head; it != nil; it = q.running.next(it) {
		if it.want == wantNow {
			it.want = wantNothing
			q.counts.dropped++
		}
	}
	q.again = 0
}

// settle is called after each step that may complete a shutdown. If no more keys can be handed out, it wakes
// all sleeping workers; if none is running either, it ends the drain. It returns true once, when that
// happens.
func (q *Queue[K]) settle() bool {
	if q.state == Open || q.waiting.len > 0 || q.again > 0 {
		return false
	}
	q.sleep.wakeAll()
	if q.running.len > 0 || q.settled {
		return false
	}
	q.settled = true
	close(q.drained)
	return true
}
