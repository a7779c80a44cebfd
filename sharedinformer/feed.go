package sharedinformer

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/internal/sharding"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
)

// feed is a reflector that fills the informer's queue with the objects of one
// namespace, or of all.
type feed struct {
	namespace string // metav1.NamespaceAll for all
	reflector *reflector.Reflector

	// Guarded by core.mu.
	cancel   context.CancelFunc // ends its run, nil while it does not run
	mayStart chan struct{}      // closed when the feeds that left before it came have ended
	joinedAt uint64             // the change of the set with which it came
	leftAt   uint64             // that with which it left; 0 while it is one of the informer's

	unconfirmed atomic.Bool // see core.unconfirmed

	listed bool   // its initial list is in the cache; guarded by core.join
	rv     string // up to where the cache has its changes; guarded by core.join

	// Where a share of the objects is wanted:
	requests  *sharding.Requests
	heldGains atomic.Uint64 // the gains before the list that readers see

	restored  bool                            // its snapshot was asked for; of the goroutine in which it runs
	unsaved   atomic.Pointer[failure.Failure] // why its snapshot was not written at last; nil if it was
	unremoved atomic.Pointer[failure.Failure] // why one that is wrong is still there; nil if none is

	retried atomic.Pointer[time.Time] // when retryNow last ended its back-off; nil if never
}

// retryAgain is for how long a feed whose back-off another one has ended goes by its own
// again: what that one found out has not helped.
const retryAgain = 30 * time.Second

// retryNow lets a feed ask again at once that waits for its kind to be served, because
// another one has found that it is. It may be called from anywhere.
func (f *feed) retryNow() {
	now, last := time.Now(), f.retried.Load()
	if s := f.reflector.Status(); s.State != reflector.BackingOff || !s.NotServed() || last != nil && now.Sub(*last) < retryAgain {
		return
	}
	if f.retried.CompareAndSwap(last, &now) {
		f.reflector.RetryNow()
	}
}

// startFeed runs a feed as a part of r, when those that left before it came have ended. It is called
// under mu.
func (i *core) startFeed(r *run, f *feed) {
	ctx, cancel := context.WithCancel(r.ctx)
	begins := make(chan struct{})
	f.cancel, f.mayStart = cancel, begins
	i.feeds.waiting = append(i.feeds.waiting, f)
	i.feeds.startWaiting()
	r.feeds.Go(func() {
		defer cancel()
		select {
		case <-begins:
			if i.snapshots != nil {
				i.snapshots.restore(f)
			}
		case <-ctx.Done():
		}
		if err := f.reflector.Run(ctx); err != nil {
			r.fail(err)
		}
		if i.feedEnded(f) {
			i.queue.Add(deltafifo.Delta{Type: deltafifo.Trim})
		}
	})
}

// feedEnded lets those begin that waited for f. It reports whether f has left.
func (i *core) feedEnded(f *feed) (left bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	f.cancel = nil
	i.feeds.startWaiting()
	if f.leftAt > 0 {
		i.noteConfirmed(f)
	}
	return f.leftAt > 0
}

// noteConfirmed takes note that the server has told f of its state in this run, or that f has left.
func (i *core) noteConfirmed(f *feed) {
	if f.unconfirmed.CompareAndSwap(true, false) {
		i.unconfirmed.Add(-1)
	}
}

// namespaceQueue is the queue of one namespace: it puts that into the deltas that are
// about all of it.
type namespaceQueue struct {
	*deltafifo.DeltaFIFO
	namespace string
}

// Add implements reflector.Queue.
func (w namespaceQueue) Add(d deltafifo.Delta) {
	if d.Key == (object.Key{}) {
		d.Key.Namespace = w.namespace
	}
	w.DeltaFIFO.Add(d)
}

// AnewWaits implements reflector.Queue.
func (w namespaceQueue) AnewWaits(string) bool { return w.DeltaFIFO.AnewWaits(w.namespace) }
