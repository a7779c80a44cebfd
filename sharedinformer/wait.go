package sharedinformer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
)

func (i *core) HasSyncedIn(namespace string) bool {
	switch {
	case i.HasSynced():
		return true
	case namespace == metav1.NamespaceAll, i.broken.Load() != nil:
		return false
	}
	feeds := i.feeds.all()
	return len(feeds) > 0 && feedCovering(feeds, namespace) == nil || i.cache.Reader().NamespaceRV(namespace) != ""
}

func (i *core) HeldUp() bool {
	if i.HasSynced() {
		return false
	}
	all, each := i.feeds.status()
	missing := missing(all, each)
	return len(missing) < len(each) && !slices.ContainsFunc(missing, func(s reflector.Status) bool { return s.RV != "" || s.Attempts == 0 })
}

func (i *core) WaitForSync(ctx context.Context) error {
	handlers := *i.handlers.Load()
	waitingFor := func() *delivery {
		for _, d := range handlers {
			if !d.HasSynced() && !d.closed.Load() {
				return d
			}
		}
		return nil
	}
	return i.waitUntil(ctx, wait{
		reached:  func() (bool, error) { return i.HasSynced() && i.unconfirmed.Load() == 0 && waitingFor() == nil, nil },
		waiting:  func() error { return i.unsynced(waitingFor()) },
		patience: func() (time.Duration, bool) { return i.patienceWith(waitingFor()) },
	})
}

func (i *core) WaitForRV(ctx context.Context, rv string, namespaces ...string) error {
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	for _, namespace := range namespaces {
		if err := i.waitForRV(ctx, rv, namespace); err != nil {
			return err
		}
	}
	return nil
}

// waitForRV is WaitForRV for a single namespace, or for all.
func (i *core) waitForRV(ctx context.Context, rv, namespace string) error {
	cached := i.cache.Reader().RV
	if namespace != metav1.NamespaceAll {
		cached = func() string { return i.cache.Reader().NamespaceRV(namespace) }
	}
	if _, err := object.CompareRV(rv, rv); err != nil {
		return fmt.Errorf("%s: wait for resource version %q: %w", i.Name(), rv, err)
	}
	return i.waitUntil(ctx, wait{
		reached: func() (bool, error) {
			before := i.feeds.current.Load()
			have := cached()
			if i.feeds.current.Load() != before { // a namespace that is not watched has the version of the whole cache
				return false, nil
			}
			switch feeds := *before; {
			case namespace != metav1.NamespaceAll && feedCovering(feeds, namespace) == nil:
				return false, fmt.Errorf("%s: wait for resource version %s in namespace %s: %w", i.Name(), rv, namespace, ErrNotWatched)
			case len(feeds) == 0:
				return false, fmt.Errorf("%s: wait for resource version %s: %w", i.Name(), rv, ErrNotWatched)
			}
			return have != "" && object.ReachedRV(have, rv), nil
		},
		waiting:  func() error { return i.behindReason(rv, cached(), namespace) },
		patience: func() (time.Duration, bool) { return i.patienceLeft(namespace) },
	})
}

func (i *core) WaitUntil(ctx context.Context, reached func() bool) error {
	return i.waitUntil(ctx, wait{
		reached: func() (bool, error) { return reached(), nil },
		waiting: func() error {
			if i.Unsynced() != nil {
				return i.unsynced(nil)
			}
			return fmt.Errorf("%s: waiting for a change%s", i.Name(), i.blocking())
		},
		patience: func() (time.Duration, bool) { return i.patienceLeft(metav1.NamespaceAll) },
	})
}

// behindReason returns an error describing why the cache has not reached rv.
func (i *core) behindReason(rv, have, namespace string) error {
	s, _ := i.statusFor(namespace)
	switch {
	case have == "" && namespace != metav1.NamespaceAll:
		return fmt.Errorf("waiting for resource version %s: %w: %w%s", rv, ErrNotSynced, i.missingReason(s), i.blocking())
	case have == "":
		return fmt.Errorf("waiting for resource version %s: %w", rv, i.unsynced(nil))
	}
	waiting := fmt.Sprintf("%s: waiting for resource version %s, the cache is at %s%s", s.Resource, rv, have, i.blocking())
	if s.Attempts > 0 {
		return fmt.Errorf("%s: %w", waiting, s.Failure)
	}
	return errors.New(waiting)
}

// wait describes a condition that changes only with a broadcast, the reason it is not met yet, and how long
// to tolerate failures that prevent it.
type wait struct {
	reached  func() (bool, error)
	waiting  func() error
	patience func() (left time.Duration, failing bool)
}

// waitUntil waits for a condition. If it gives up, it returns an error that wraps both the reason the
// condition is not met and the reason it stopped waiting.
func (i *core) waitUntil(ctx context.Context, w wait) error {
	bear := i.newPatienceTimer(w.patience)
	defer bear.timer.Stop()
	for {
		changed := i.changed.next()
		if broken := i.broken.Load(); broken != nil {
			return fmt.Errorf("%w: %w", broken, ErrStopped)
		}
		if ok, err := w.reached(); ok || err != nil {
			return err
		}
		if i.stopped.Load() {
			return i.ended(w.waiting())
		}
		if bear.expired() {
			return w.waiting()
		}
		select {
		case <-changed:
		case <-bear.timer.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", w.waiting(), context.Cause(ctx))
		}
	}
}

// ended returns the error for a wait after the run has ended.
func (i *core) ended(waiting error) error {
	if last := i.last.Load(); last != nil {
		return fmt.Errorf("%w: %w: %w", waiting, ErrStopped, last)
	}
	return fmt.Errorf("%w: %w", waiting, ErrStopped)
}

// patienceTimer decides when a waiter gives up because of failures. It computes the remaining patience only
// when that may have run out, rather than after every change, because the computation reads the status of
// every feed.
type patienceTimer struct {
	informer *core
	patience func() (left time.Duration, failing bool)
	timer    *time.Timer
	due      time.Time // when to recompute
	feeds    *[]*feed  // at the last computation
	synced   bool      // at the last computation
}

func (i *core) newPatienceTimer(patience func() (time.Duration, bool)) *patienceTimer {
	return &patienceTimer{informer: i, patience: patience, timer: time.NewTimer(i.maxPatience())}
}

// maxPatience returns the shortest time in which a failure that has not happened yet could exhaust the
// patience.
func (i *core) maxPatience() time.Duration {
	if i.patience < 0 {
		return math.MaxInt64
	}
	return max(i.patience, 100*time.Millisecond)
}

// expired reports whether a failure has lasted longer than the patience. Unless a sync or a namespace change
// affects the condition, the result stays valid until the remaining patience has run out, because later
// failures take longer to exhaust it.
func (b *patienceTimer) expired() bool {
	now, feeds, synced := time.Now(), b.informer.feeds.current.Load(), b.informer.HasSynced()
	if feeds == b.feeds && synced == b.synced && now.Before(b.due) {
		return false
	}
	left, failing := b.patience()
	if failing && left <= 0 {
		return true
	}
	if !failing {
		left = b.informer.maxPatience()
	}
	b.feeds, b.synced, b.due = feeds, synced, now.Add(left)
	b.timer.Reset(left)
	return false
}

// statusFor returns the status of the reflector for a namespace, or for all namespaces, and whether the cache
// has its initial list.
func (i *core) statusFor(namespace string) (s reflector.Status, synced bool) {
	if namespace != metav1.NamespaceAll {
		if f := feedCovering(i.feeds.all(), namespace); f != nil {
			return i.feeds.statusOf(f.reflector), i.cache.Reader().NamespaceRV(namespace) != ""
		}
	}
	s, _ = i.feeds.status()
	return s, i.HasSynced()
}

// patienceLeft returns how long to keep waiting while the missing initial list for namespace (or any missing
// list, for all namespaces) keeps failing. It ignores failures of reflectors that have their list.
func (i *core) patienceLeft(namespace string) (left time.Duration, failing bool) {
	synced := i.HasSynced()
	if synced && i.unconfirmed.Load() == 0 {
		return 0, false
	}
	var missing []reflector.Status
	if s, read := i.statusFor(namespace); namespace != metav1.NamespaceAll && !read {
		missing = []reflector.Status{s}
	} else if namespace == metav1.NamespaceAll {
		missing = i.missing()
	}
	for _, s := range missing {
		switch {
		case s.Attempts == 0 || s.RV != "" && !synced:
			continue
		case s.Failure.Phase == failure.PhaseOptions:
			return 0, true
		case i.patience < 0:
			continue
		}
		since := s.Failure.Since
		if began := i.runBegan(); began.After(since) {
			since = began
		}
		if mine := i.patience - time.Since(since); !failing || mine < left {
			left, failing = mine, true
		}
	}
	return left, failing
}

// patienceWith is like patienceLeft, but also considers handler d if it is not nil.
func (i *core) patienceWith(d *delivery) (left time.Duration, failing bool) {
	if left, failing = i.patienceLeft(metav1.NamespaceAll); failing || d == nil || i.patience < 0 || !i.HasSynced() {
		return left, failing
	}
	_, since := d.blocked()
	return i.patience - since, true
}

func (i *core) Unsynced() error {
	if broken := i.broken.Load(); broken != nil {
		return broken
	}
	var each []error
	for _, s := range i.missing() {
		each = append(each, i.missingReason(s))
	}
	return errors.Join(each...)
}

// missingReason returns an error describing why the reflector with status s has no initial list. If it has
// one, the error describes what the informer is waiting for.
func (i *core) missingReason(s reflector.Status) error {
	running, leaving := i.leavingNames()
	idle := s.State == reflector.Idle || s.State == reflector.Stopped
	switch {
	case !running || s.Attempts > 0:
	case idle && leaving == "":
		return fmt.Errorf("%s: about to start", s.Resource)
	case idle:
		return fmt.Errorf("%s: starts when the source has released %s", s.Resource, leaving)
	case s.RV != "" && leaving != "":
		return fmt.Errorf("%s: has its list, but syncs only once the source has released %s", s.Resource, leaving)
	}
	return s.Missing()
}

// missing returns the statuses of the reflectors whose initial list is missing, or whose server has not
// responded in this run.
func (i *core) missing() (missed []reflector.Status) {
	if !i.HasSynced() {
		return missing(i.feeds.status())
	}
	for _, f := range i.feeds.all() {
		if f.unconfirmed.Load() {
			missed = append(missed, i.feeds.statusOf(f.reflector))
		}
	}
	return missed
}

// unsynced returns an error describing why the informer, or else d's handler, is not synced.
func (i *core) unsynced(d *delivery) error {
	switch err := i.Unsynced(); {
	case err != nil:
		return fmt.Errorf("%w: %w%s", ErrNotSynced, err, i.blocking())
	case d != nil:
		blocked, _ := d.blocked()
		return fmt.Errorf("%w: %s: %s has %d events pending before it is synced%s", ErrNotSynced, i.Name(), d, d.Status().Pending, blocked)
	}
	return fmt.Errorf("%w: %s%s", ErrNotSynced, i.Name(), i.blocking())
}
