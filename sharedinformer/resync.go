package sharedinformer

import (
	"context"
	"time"

	"github.com/millrace-dev/millrace/deltafifo"
)

// resync queues a Sync when a handler's resync is due. Handlers that are due are marked here; the recipients
// are determined when the Sync leaves the queue, so it follows every earlier change (L11). The loop also
// checks for blocked handlers. It continues to check during the first minute of a shutdown, because a blocked
// handler keeps the run from ending.
func (i *core) resync(ctx context.Context, over <-chan struct{}) {
	defer i.reportSuppressed()
	handlers := newSlowHandlers()
	look, looks := time.Now().Add(slowCheckEvery), 0
	for looks < slowChecksAtStop {
		// Use one timer for both, and handle everything that is due no matter why the loop woke up. In a
		// synctest bubble no time passes before the next timer is created, so that timer is not yet due. In a
		// bubble, a timer that is already due when created or selected on crashes Go's race detector.
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

// nextResync returns when the next resync is due, or last if that is earlier.
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

// markDue marks the handlers that are due for a resync.
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

// wakeResync makes the loop recheck the handlers.
func (i *core) wakeResync() {
	select {
	case i.resyncChanged <- struct{}{}:
	default:
	}
}
