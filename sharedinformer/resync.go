package sharedinformer

import (
	"context"
	"time"

	"github.com/millrace-dev/millrace/deltafifo"
)

// resync queues a Sync whenever a handler's resync is due. Who is due is noted
// at the handler; who gets it is decided where the Sync leaves the queue, so
// that it stands behind every change that came before (L11). Now and then it also looks
// for handlers that block.
func (i *core[T]) resync(ctx context.Context) {
	handlers := newAttendance[T]()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		timer := time.NewTimer(time.Until(i.nextResync()))
		select {
		case <-timer.C:
		case <-i.tuned:
		case <-look.C:
			handlers.look(i)
		case <-ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
		// Whatever woke it. In a synctest bubble the time does not pass before the next timer,
		// which is not due then: those that are due when they are made crash Go's race detector.
		if i.markDue(time.Now()) {
			i.queue.Add(deltafifo.Delta[T]{Type: deltafifo.Sync})
		}
	}
}

// noResync is how long the loop sleeps while no handler wants a resync.
const noResync = 24 * time.Hour

func (i *core[T]) nextResync() time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	next := time.Now().Add(noResync)
	for _, d := range *i.handlers.Load() {
		if d.opts.Resync > 0 && d.nextResync.Before(next) {
			next = d.nextResync
		}
	}
	return next
}

// markDue notes the handlers whose time has come.
func (i *core[T]) markDue(now time.Time) (any bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, d := range *i.handlers.Load() {
		if d.opts.Resync > 0 && !d.nextResync.After(now) {
			d.resyncDue.Store(true)
			d.nextResync = now.Add(d.opts.Resync)
			any = true
		}
	}
	return any
}

// tune lets the loop look at the handlers again.
func (i *core[T]) tune() {
	select {
	case i.tuned <- struct{}{}:
	default:
	}
}
