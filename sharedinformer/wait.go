package sharedinformer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
)

// HasSynced reports whether a whole initial list is in the cache (L18).
func (i *Informer[T]) HasSynced() bool { return i.synced.Load() }

// WaitForSync waits until the informer and every handler that it has when
// WaitForSync is called are synced. It returns an error that wraps ErrNotSynced
// and says what is missing, in which state the reflector is and what failed
// last (L22):
//   - when ctx is done, with its cause;
//   - with ErrStopped when Run has returned;
//   - when what is missing has been failing for Options.SyncPatience, or a handler, or
//     OnError about one, has been in one call for that long.
//
// Before Run is called it waits for Run.
func (i *Informer[T]) WaitForSync(ctx context.Context) error {
	handlers := *i.handlers.Load()
	waitingFor := func() *Registration[T] {
		for _, r := range handlers {
			if !r.HasSynced() && !r.delivery.closed.Load() {
				return r
			}
		}
		return nil
	}
	return i.waitUntil(ctx, wait{
		reached:  func() (bool, error) { return i.HasSynced() && waitingFor() == nil, nil },
		waiting:  func() error { return i.unsynced(waitingFor()) },
		patience: func() (time.Duration, bool) { return i.patienceWith(waitingFor()) },
	})
}

// WaitForRV waits until the cache holds every change up to rv, such as that of
// an object that was just written (L14). It fails with the cause of ctx, with
// ErrStopped as soon as Run has returned, and at once where rv is not a
// resource version, or the informer has no namespaces (ErrNotWatched). Where there is
// no initial list it gives up as WaitForSync does. What it returns says what failed last.
func (i *Informer[T]) WaitForRV(ctx context.Context, rv string) error {
	return i.waitForRV(ctx, rv)
}

// WaitForRVIn is WaitForRV for the changes in one namespace. Where each namespace is
// watched on its own (Options.Namespaces) it need not wait for the others: a quiet
// one may learn only from a bookmark, every minute or so, that it has missed nothing.
// Of a namespace that is not among the informer's it fails at once, with
// ErrNotWatched.
func (i *Informer[T]) WaitForRVIn(ctx context.Context, rv, namespace string) error {
	if namespace == metav1.NamespaceAll {
		return i.waitForRV(ctx, rv)
	}
	return i.waitForRV(ctx, rv, namespace)
}

func (i *Informer[T]) waitForRV(ctx context.Context, rv string, namespace ...string) error {
	cached := i.Cache().RV
	if len(namespace) > 0 {
		cached = func() string { return i.Cache().NamespaceRV(namespace[0]) }
	}
	if _, err := object.CompareRV(rv, rv); err != nil {
		return fmt.Errorf("%s: wait for resource version %q: %w", i.Name(), rv, err)
	}
	return i.waitUntil(ctx, wait{
		reached: func() (bool, error) {
			switch feeds := i.feeds.all(); {
			case len(namespace) > 0 && feedOf(feeds, namespace[0]) == nil:
				return false, fmt.Errorf("%s: wait for resource version %s in namespace %s: %w", i.Name(), rv, namespace[0], ErrNotWatched)
			case len(feeds) == 0:
				return false, fmt.Errorf("%s: wait for resource version %s: %w", i.Name(), rv, ErrNotWatched)
			}
			have := cached()
			return have != "" && object.ReachedRV(have, rv), nil
		},
		waiting:  func() error { return i.behind(rv, cached(), namespace) },
		patience: func() (time.Duration, bool) { return i.patienceLeft(namespace) },
	})
}

// WaitUntil waits until reached is true. It is asked at once and after every
// change of the cache, of the reflector's state and of what is synced, while no
// lock is held; it must be quick. Otherwise WaitUntil ends as WaitForRV does.
func (i *Informer[T]) WaitUntil(ctx context.Context, reached func() bool) error {
	return i.waitUntil(ctx, wait{
		reached: func() (bool, error) { return reached(), nil },
		waiting: func() error {
			if !i.HasSynced() {
				return i.unsynced(nil)
			}
			return fmt.Errorf("%s: waiting for a change", i.Name())
		},
		patience: func() (time.Duration, bool) { return i.patienceLeft(nil) },
	})
}

// behind says why the cache is not at rv.
func (i *Informer[T]) behind(rv, have string, namespace []string) error {
	s, _ := i.reading(namespace)
	switch {
	case have == "" && len(namespace) > 0:
		return fmt.Errorf("waiting for resource version %s: %w: %w", rv, ErrNotSynced, i.notRead(s))
	case have == "":
		return fmt.Errorf("waiting for resource version %s: %w", rv, i.unsynced(nil))
	}
	waiting := fmt.Sprintf("%s: waiting for resource version %s, the cache is at %s", s.Resource, rv, have)
	if s.Attempts > 0 {
		return fmt.Errorf("%s: %w", waiting, s.Failure)
	}
	return errors.New(waiting)
}

// wait is what a caller waits for: a condition that only changes with a broadcast,
// what to say while it is not met, and how long to bear with what stands in its way.
type wait struct {
	reached  func() (bool, error)
	waiting  func() error
	patience func() (left time.Duration, failing bool)
}

// waitUntil waits. What it returns otherwise wraps both what it was waiting for and
// why that ended.
func (i *Informer[T]) waitUntil(ctx context.Context, w wait) error {
	for {
		changed := i.changed.next()
		if ok, err := w.reached(); ok || err != nil {
			return err
		}
		if i.stopped.Load() {
			return fmt.Errorf("%w: %w", w.waiting(), ErrStopped)
		}
		patience, failing := w.patience()
		if failing && patience <= 0 {
			return w.waiting()
		}
		timer := time.NewTimer(patience)
		if !failing {
			timer.Stop()
		}
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w: %w", w.waiting(), context.Cause(ctx))
		}
		timer.Stop()
	}
}

// reading returns the status of what reads a namespace, or else of the whole, and
// whether the cache has its initial list.
func (i *Informer[T]) reading(namespace []string) (s reflector.Status, synced bool) {
	if len(namespace) > 0 {
		if f := feedOf(i.feeds.all(), namespace[0]); f != nil {
			return f.reflector.Status(), i.Cache().NamespaceRV(namespace[0]) != ""
		}
	}
	s, _ = i.feeds.status()
	return s, i.HasSynced()
}

// patienceLeft is how long what is missing is still waited for while it fails: the
// initial list of a namespace, if one is named, or else those of all. What fails but
// has its list stands in nobody's way.
func (i *Informer[T]) patienceLeft(namespace []string) (left time.Duration, failing bool) {
	if i.patience < 0 || i.HasSynced() {
		return 0, false
	}
	var missing []reflector.Status
	if s, synced := i.reading(namespace); len(namespace) > 0 && !synced {
		missing = []reflector.Status{s}
	} else if len(namespace) == 0 {
		missing = i.missing()
	}
	for _, s := range missing {
		switch {
		case s.Attempts == 0 || s.RV != "":
			continue
		case s.Failure.Phase == failure.PhaseOptions:
			return 0, true
		}
		since := s.Failure.Since
		if began := i.began(); began.After(since) {
			since = began
		}
		if mine := i.patience - time.Since(since); !failing || mine < left {
			left, failing = mine, true
		}
	}
	return left, failing
}

// patienceWith is patienceLeft where a handler is waited for as well, if r is not nil.
func (i *Informer[T]) patienceWith(r *Registration[T]) (left time.Duration, failing bool) {
	if left, failing = i.patienceLeft(nil); failing || r == nil || i.patience < 0 || !i.HasSynced() {
		return left, failing
	}
	_, since := r.delivery.blocked()
	return i.patience - since, true
}

// began is when the run in progress began. Until its reflector has begun too,
// the failures of the run before are still to be seen.
func (i *Informer[T]) began() time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.current == nil {
		return time.Time{}
	}
	return i.current.began
}

// Unsynced says which initial lists are missing and why; nil where HasSynced.
func (i *Informer[T]) Unsynced() error {
	var each []error
	for _, s := range i.missing() {
		each = append(each, i.notRead(s))
	}
	return errors.Join(each...)
}

// notRead says why the reflector in state s has no initial list.
func (i *Informer[T]) notRead(s reflector.Status) error {
	running, leaving := i.ending()
	if !running || s.Attempts > 0 || s.State != reflector.Idle && s.State != reflector.Stopped {
		return s.Missing()
	}
	var before []string
	for _, f := range leaving {
		if f.reflector.Status().State != reflector.Idle { // as those are that wait too
			before = append(before, f.reflector.Name())
		}
	}
	if before == nil {
		return fmt.Errorf("%s: about to begin", s.Resource)
	}
	return fmt.Errorf("%s: begins when the source lets go of %s, which was cancelled", s.Resource, strings.Join(before, ", "))
}

// ending returns the feeds that have left and not ended, and whether the informer runs.
func (i *Informer[T]) ending() (running bool, leaving []*feed[T]) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, f := range i.feeds.leaving {
		if f.cancel != nil {
			leaving = append(leaving, f)
		}
	}
	return i.current != nil, leaving
}

// missing returns the reflectors whose initial list is missing.
func (i *Informer[T]) missing() []reflector.Status {
	if i.HasSynced() {
		return nil
	}
	return missing(i.feeds.status())
}

// unsynced says why the informer, or else the handler r, is not synced.
func (i *Informer[T]) unsynced(r *Registration[T]) error {
	switch err := i.Unsynced(); {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrNotSynced, err)
	case r != nil:
		blocked, _ := r.delivery.blocked()
		return fmt.Errorf("%w: %s: %s has %d events to hear before it is synced%s", ErrNotSynced, i.Name(), r, r.Status().Pending, blocked)
	}
	return fmt.Errorf("%w: %s", ErrNotSynced, i.Name())
}
