package sharedinformer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/internal/sharding"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// feed is a reflector that fills the informer's queue with the objects in one namespace or all namespaces.
type feed struct {
	namespace string // metav1.NamespaceAll for all
	reflector *reflector.Reflector
	begin     <-chan struct{} // closed when all informers that SetNamespaces changes watch the namespace; nil for other feeds

	// Guarded by core.mu.
	cancel   context.CancelFunc // cancels its run; nil while it is not running
	mayStart chan struct{}      // closed when all feeds removed before it was added have ended
	joinedAt uint64             // number of the change that added the feed
	leftAt   uint64             // number of the change that removed it; 0 while the feed is in the set

	unconfirmed atomic.Bool // see core.unconfirmed

	listed atomic.Bool // its initial list is in the cache; written under core.join
	rv     string      // its version in the cache; guarded by core.join
	sender uint32      // Delta.Sender of its lists, which differs from those of removed feeds; set before it runs

	// For sharded informers:
	requests  *sharding.Requests
	heldGains atomic.Uint64 // number of gains before the list in the cache

	lost      atomic.Bool                     // its objects in the cache may belong to a history that the server has lost
	restored  bool                            // its snapshot has been requested; owned by the goroutine running the feed
	unsaved   atomic.Pointer[failure.Failure] // last error from writing its snapshot; nil if it succeeded
	unremoved atomic.Pointer[failure.Failure] // error from removing an invalid snapshot; nil if none

	retried atomic.Pointer[time.Time] // when retryNow last cut its back-off short; nil if never
}

// retryAgain is how long a feed ignores wake-ups from other feeds after a futile one.
const retryAgain = 30 * time.Second

// retryNow cuts short the back-off of a feed that is waiting for its kind to be served. It is called when
// another feed finds that the kind is served now. It is safe for concurrent use.
func (f *feed) retryNow() {
	now, last := time.Now(), f.retried.Load()
	if s := f.reflector.Status(); s.State != reflector.BackingOff || !s.NotServed() || last != nil && now.Sub(*last) < retryAgain {
		return
	}
	if f.retried.CompareAndSwap(last, &now) {
		f.reflector.RetryNow()
	}
}

// startFeed runs a feed in r once all feeds removed before it was added have ended. The caller must hold mu.
func (i *core) startFeed(r *run, f *feed) {
	ctx, cancel := context.WithCancel(r.ctx)
	begins := make(chan struct{})
	f.cancel, f.mayStart = cancel, begins
	i.feeds.waiting = append(i.feeds.waiting, f)
	i.feeds.startWaiting()
	r.feeds.Go(func() {
		defer cancel()
		if await(ctx, begins) && (f.begin == nil || await(ctx, f.begin)) && i.snapshots != nil {
			i.snapshots.restore(ctx, f)
		}
		if err := f.reflector.Run(ctx); err != nil {
			r.fail(err)
		}
		if i.feedEnded(f) {
			i.queue.Add(deltafifo.Delta{Type: deltafifo.Trim})
		}
	})
}

// await waits until c is closed, and reports whether that happened before ctx was done.
func await(ctx context.Context, c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	case <-ctx.Done():
		return false
	}
}

// feedEnded starts the feeds that were waiting for f. It reports whether f was removed.
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

// noteConfirmed records that the server has responded to f in this run, or that f was removed.
func (i *core) noteConfirmed(f *feed) {
	if f.unconfirmed.CompareAndSwap(true, false) {
		i.unconfirmed.Add(-1)
	}
}

// feedQueue is the queue for one feed: it sets the namespace in deltas without a key, and the sender of lists.
type feedQueue struct {
	*deltafifo.DeltaFIFO
	feed *feed
}

// Add implements reflector.Queue.
func (w feedQueue) Add(d deltafifo.Delta) {
	if d.Key == (object.Key{}) {
		d.Key.Namespace = w.feed.namespace
	}
	if d.Type == deltafifo.Replaced {
		d.Sender = w.feed.sender
	}
	w.DeltaFIFO.Add(d)
}

// NewHistoryQueued implements reflector.Queue.
func (w feedQueue) NewHistoryQueued(string) bool {
	return w.DeltaFIFO.NewHistoryQueued(w.feed.namespace)
}

// newFeeds returns a feed for each namespace in a set. If the source cannot be limited to one of the
// namespaces, that namespace's feed fails and reports the reason. It calls the source, so the caller must not
// hold a lock.
func (i *core) newFeeds(set []string, fresh bool) []*feed {
	feeds := make([]*feed, len(set))
	for n, namespace := range set {
		feeds[n] = i.newFeed(namespace, fresh)
	}
	return feeds
}

// newFeed returns the feed for one namespace. Its list must be a consistent read if other feeds may have read
// the same objects before.
func (i *core) newFeed(namespace string, fresh bool) *feed {
	if namespace == metav1.NamespaceAll {
		return i.newFeedOf(i.feeds.source, namespace, fresh)
	}
	return i.newFeedOf(&scopeChecker{ListerWatcher: i.feeds.source, namespace: namespace, onClusterScoped: i.becameClusterScoped}, namespace, fresh)
}

// newFeedOf is newFeed for a given source.
func (i *core) newFeedOf(from source.ListerWatcher, namespace string, fresh bool) *feed {
	f := &feed{namespace: namespace}
	opts := i.feeds.opts
	opts.Namespace, opts.Consistent = namespace, fresh
	opts.OnState = func(s reflector.Status) {
		if f.unconfirmed.Load() && (s.State == reflector.Watching || s.Heard.After(i.runBegan())) {
			i.noteConfirmed(f)
		}
		i.feeds.opts.OnState(s)
	}
	opts.OnRollback = func() {
		if i.snapshots != nil {
			i.snapshots.noteRollback(f)
		}
	}
	if i.ownership != nil {
		f.requests = &sharding.Requests{Ownership: i.ownership}
		opts.Ownership = f.requests
	}
	f.reflector = reflector.New(from, feedQueue{i.queue, f}, opts)
	return f
}

// scopeChecker is a feed's source. It detects when a kind becomes namespaced or cluster-scoped.
type scopeChecker struct {
	source.ListerWatcher

	namespace string // namespace of the feed

	// onClusterScoped, if set, is called by a feed for one namespace if the kind is cluster-scoped.
	onClusterScoped func()

	// onNamespaced, if set, is called when the kind is namespaced again, by a feed for everything that was
	// created while the kind was cluster-scoped. It reports whether the informer still wants the feed's
	// objects.
	onNamespaced func() (wanted bool)
}

// errNamespaced means that a cluster-scoped kind is now namespaced, for example because its
// CustomResourceDefinition was recreated.
var errNamespaced = errors.New("the kind is now namespaced: only the requested namespaces are read from now on")

func (s *scopeChecker) List(ctx context.Context, req source.Request) source.List[object.Head] {
	list := s.ListerWatcher.List(ctx, req)
	items := list.Items
	list.Items = func(yield func(object.Head, error) bool) {
		for item, err := range items {
			if err != nil {
				s.noteError(err)
			} else if !source.IsNil(item) {
				err = s.check(item.GetNamespace())
			}
			if !yield(item, err) {
				return
			}
		}
	}
	return list
}

func (s *scopeChecker) Watch(ctx context.Context, req source.Request) (iter.Seq2[wire.Event[object.Head], error], error) {
	events, err := s.ListerWatcher.Watch(ctx, req)
	if err != nil {
		s.noteError(err)
		return nil, err
	}
	return func(yield func(wire.Event[object.Head], error) bool) {
		for e, err := range events {
			if err != nil {
				s.noteError(err)
			} else if e.Type != watch.Bookmark && (e.Passed != nil || !source.IsNil(e.Object)) {
				err = s.check(e.Namespace())
			}
			if !yield(e, err) {
				return
			}
		}
	}, nil
}

func (s *scopeChecker) noteError(err error) {
	if s.onClusterScoped != nil && errors.Is(err, source.ErrNotNamespaced) {
		s.onClusterScoped()
	}
}

// check returns an error if an object in the namespace does not belong in the feed. The feed's lists would
// never reveal that such an object was deleted.
func (s *scopeChecker) check(namespace string) error {
	switch {
	case s.namespace != metav1.NamespaceAll && namespace != s.namespace:
		return fmt.Errorf("got an object in namespace %q when reading namespace %q: fix the server", namespace, s.namespace)
	case s.onNamespaced != nil && namespace != "" && !s.onNamespaced():
		return errNamespaced
	}
	return nil
}
