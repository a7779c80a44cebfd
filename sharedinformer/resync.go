package sharedinformer

import (
	"context"
	"time"

	"github.com/millrace-dev/millrace/deltafifo"
)

// resync queues a Sync whenever a handler's resync is due. Who is due is noted
// at the handler; who gets it is decided where the Sync leaves the queue, so
// that it stands behind every change that came before (L11). Now and then it also looks
// for handlers that block, also in the first minute of a stop: one that blocks keeps the run from ending.
func (i *core) resync(ctx context.Context, over <-chan struct{}) {
	defer i.reportSuppressed()
	handlers := newSlowHandlers()
	look, looks := time.Now().Add(slowCheckEvery), 0
	for looks < slowChecksAtStop {
		// One timer for both, and all that is due is done whatever woke the loop: in a synctest
		// bubble the time does not pass before the next timer is made, which is not due then.
		// A timer that is due when it is made or selected on crashes Go's race detector there.
		timer := time.NewTimer(time.Until(i.nextResync(look)))
		select {
		case <-timer.C:
		case <-i.resyncChanged:
		case <-over:
			timer.Stop()
			return
		}
		timer.Stop()
		now := time.Now()
		if i.markDue(now) && ctx.Err() == nil && !i.syncing.Swap(true) {
			i.queue.Add(deltafifo.Delta{Type: deltafifo.Sync})
		}
		if !now.Before(look) {
			if ctx.Err() != nil {
				looks++
			}
			handlers.check(i)
			i.reportSuppressed()
			look = now.Add(slowCheckEvery)
		}
	}
}

// nextResync returns when the next resync is due, or last where none is before that.
func (i *core) nextResync(last time.Time) time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	next := last
	for _, d := range *i.handlers.Load() {
		if d.opts.Resync > 0 && d.nextResync.Before(next) {
			next = d.nextResync
		}
	}
	return next
}

// markDue notes the handlers whose time has come.
func (i *core) markDue(now time.Time) (any bool) {
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

// wakeResync lets the loop look at the handlers again.
func (i *core) wakeResync() {
	select {
	case i.resyncChanged <- struct{}{}:
	default:
	}
}
