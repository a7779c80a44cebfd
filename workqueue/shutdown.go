package workqueue

import (
	"context"
	"errors"
	"fmt"
)

// ErrShutDown says that a queue hands out no more keys because ShutDown or
// Drain was called.
var ErrShutDown = errors.New("work queue is shut down")

// State is where a queue is in its life. It only ever grows.
type State uint8

const (
	// Open: keys are taken and handed out.
	Open State = iota
	// Draining: no keys are taken; the waiting ones are handed out.
	Draining
	// ShutDown: no keys are taken nor handed out. Work that runs may end.
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

// MarshalText lets a Status print readably as JSON.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// ShutDown ends the queue at once: keys that wait or are delayed are dropped
// and counted in Status.Dropped, blocked Gets return ErrShutDown, and so does
// each Get from now on. It does not wait for work that runs; its Done is still
// due, and Drain waits for it. Calling it again does nothing.
func (q *Queue[K]) ShutDown() {
	q.close(ShutDown)
}

// Drain ends the queue in order: it takes no more keys, and returns nil when
// every key that waited has been handed out and every key that ran, or was
// added again while it ran, is done. Workers must go on with Get until it
// returns ErrShutDown.
//
// Delayed adds, retries among them, are dropped and counted in Status.Dropped:
// waiting for them could take hours, and handing them out early would hammer
// whatever they back off from. What work adds while the queue drains is dropped
// too, or it would never end.
//
// When the context ends first, Drain returns its cause and what is left. The
// queue goes on draining: call Drain again to wait on, or ShutDown to drop what
// waits. After ShutDown, Drain waits for the running work alone. It may be
// called from several goroutines.
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

// ShuttingDown reports whether ShutDown or Drain has been called: from then on
// keys that are added are dropped.
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

// close moves the queue on to a later state.
func (q *Queue[K]) close(to State) {
	settled := q.advance(to)
	// A ring under way needs nothing but the lock, which is free now: this
	// waits for microseconds, and then no goroutine is left.
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

// settle is called after each step that may have been the last of a queue that
// is being shut down. When no key can come any more it sends the sleeping
// workers home, and when none runs either it ends the drain; that happens once,
// and then it reports true.
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
