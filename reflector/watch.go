package reflector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

// shortWatch is how long a watch must have lasted before the server may close
// it without anything new and be asked for the next one at once.
const shortWatch = time.Second

// streamTries is how often a streaming list is tried before a list takes its
// place.
const streamTries = 2

// readTries is how often a change that cannot be read is asked for before a
// list looks whether the object is still like that; it looks again after twice,
// four times, eight times as many. The history does not change: a watch would
// meet the same bytes again until they expire, though the object may have been
// mended or deleted long since.
const readTries = 3

// initialWatch reads the initial state from a watch and stays on it.
func (r *Reflector[T]) initialWatch(ctx context.Context) (State, *failure.Failure) {
	r.countList()
	yes := true
	opts := r.opts.selectors()
	opts.SendInitialEvents = &yes
	opts.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	var initial initialSet[T]
	next, fail := r.follow(ctx, opts, &initial)
	if initial.done {
		return next, fail
	}
	if refusesStream(fail.Err) && r.opts.Initial == Auto {
		// Rights may be granted and kinds installed later.
		r.noStream = !apierrors.IsForbidden(fail.Err) && !apierrors.IsNotFound(fail.Err)
		r.opts.Logger.Debug("streaming list refused, listing", "resource", r.Name(), "err", failure.Reason(fail.Err))
		return Listing, nil
	}
	r.streamFailures++
	late := errors.Is(fail.Err, ErrNoEnd)
	r.noStream = r.noStream || late
	if late || r.opts.Initial == Auto && r.streamFailures >= streamTries {
		return Listing, fail
	}
	return InitialWatch, fail
}

// refusesStream reports whether the server will not stream to us, so that a
// list has to find out whether that is about streaming or about the resource.
func refusesStream(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err) ||
		apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}

// watch follows the changes from the last resource version.
func (r *Reflector[T]) watch(ctx context.Context) (State, *failure.Failure) {
	r.enter(Watching)
	opts := r.opts.selectors()
	opts.ResourceVersion = r.rv
	next, fail := r.follow(ctx, opts, nil)
	if opts.ResourceVersion != r.rv {
		r.unreadable = 0
	}
	if fail != nil && unreadable(fail) {
		r.unreadable++
		if rounds := r.unreadable / readTries; r.unreadable%readTries == 0 && bits.OnesCount(uint(rounds)) == 1 {
			return Listing, fail
		}
	}
	return next, fail
}

// unreadable reports whether f is about a change that arrived whole and could
// still not be used.
func unreadable(f *failure.Failure) bool {
	return (f.Phase == failure.PhaseDecode || f.Phase == failure.PhaseTransform) && !errors.Is(f.Err, io.ErrUnexpectedEOF)
}

// follow opens a watch and reads it to its end. With initial not nil it first
// gathers the initial state there.
func (r *Reflector[T]) follow(ctx context.Context, opts metav1.ListOptions, initial *initialSet[T]) (State, *failure.Failure) {
	opened := time.Now()
	lifetime := r.opts.watchTimeout()
	seconds := int64(lifetime.Seconds())
	opts.TimeoutSeconds = &seconds
	opts.AllowWatchBookmarks = true
	lifetime += r.opts.WatchMargin

	limit, cause := lifetime, ErrStalled
	if initial != nil {
		limit, cause = min(r.opts.StreamIdle, r.opts.StreamTimeout), ErrNoEnd
	}
	ctx, dog := startWatchdog(ctx, limit, cause)
	defer dog.stop()

	r.update(func(s *Status) { s.Watches++ })
	events, err := r.source.Watch(ctx, opts)
	if err != nil {
		return r.watchFailed(ctx, failure.PhaseWatchOpen, err)
	}
	if initial == nil {
		r.accepted()
	}
	from := r.rv
	for e, err := range events {
		if err != nil {
			return r.watchFailed(ctx, failure.PhaseWatch, err)
		}
		if err := r.queue.WaitForRoom(ctx); err != nil {
			return r.watchFailed(ctx, failure.PhaseWatch, err)
		}
		var fail *failure.Failure
		if initial == nil || initial.done {
			fail = r.apply(e)
		} else if fail = r.gather(initial, e, opened); initial.done {
			dog.blame(ErrStalled)
			dog.feed(lifetime - time.Since(opened))
			r.enter(Watching)
		} else {
			dog.feed(min(r.opts.StreamIdle, r.opts.StreamTimeout-time.Since(opened)))
		}
		if fail != nil {
			return Watching, fail
		}
	}
	switch {
	case ctx.Err() != nil:
		return r.watchFailed(ctx, failure.PhaseWatch, ctx.Err())
	case initial != nil && !initial.done:
		return InitialWatch, &failure.Failure{Phase: failure.PhaseWatch, Err: errEarlyEnd}
	case r.rv == from && time.Since(opened) < shortWatch:
		return Watching, &failure.Failure{Phase: failure.PhaseWatch, Err: ErrShortWatch}
	}
	r.succeeded()
	return Watching, nil
}

var errEarlyEnd = fmt.Errorf("closed by the server: %w", ErrNoEnd)

// watchFailed says where to go on after a watch failed to open or broke.
func (r *Reflector[T]) watchFailed(ctx context.Context, phase failure.Phase, err error) (State, *failure.Failure) {
	next := Watching
	if expired(err) {
		r.expired = true
		next = r.first()
	}
	return next, failed(ctx, phase, err)
}

// accepted ends a series of failures to come this far. One of reading or
// decoding ends only with a change that was read.
func (r *Reflector[T]) accepted() {
	r.update(func(s *Status) {
		if s.Failure != nil && (s.Failure.Phase == failure.PhaseWatchOpen || s.Failure.Phase == failure.PhaseResolve) {
			s.Attempts = 0
		}
	})
}

// gather takes one event of a streaming list. Its end queues the set.
func (r *Reflector[T]) gather(initial *initialSet[T], e wire.Event[T], opened time.Time) *failure.Failure {
	switch e.Type {
	case watch.Bookmark:
		if !endsInitial(e.Object) {
			return nil
		}
		rv := e.Object.GetResourceVersion()
		if rv == "" {
			return &failure.Failure{Phase: failure.PhaseWatch, Err: ErrNoRV}
		}
		r.replace(initial.take(), rv, opened)
		return nil
	case watch.Added, watch.Modified, watch.Deleted:
		initial.apply(e.Type, e.Object)
		return nil
	}
	return unknownEvent(e.Type)
}

// apply queues one change. Its RV counts as seen only then.
func (r *Reflector[T]) apply(e wire.Event[T]) *failure.Failure {
	d := deltafifo.Delta[T]{RV: e.Object.GetResourceVersion(), Received: e.Received, Decoded: e.Decoded}
	if d.RV == "" {
		return &failure.Failure{Phase: failure.PhaseDecode, Key: object.KeyOf(e.Object), Err: ErrNoRV}
	}
	order, err := object.CompareRV(d.RV, r.rv)
	stale := err == nil && order <= 0
	if stale && e.Type != watch.Bookmark {
		r.update(func(s *Status) { s.Duplicates++ })
		return nil
	}
	switch e.Type {
	case watch.Added:
		d.Type = deltafifo.Added
	case watch.Modified:
		d.Type = deltafifo.Updated
	case watch.Deleted:
		d.Type = deltafifo.Deleted
	case watch.Bookmark:
		d.Type = deltafifo.Bookmark
	default:
		return unknownEvent(e.Type)
	}
	if d.Type != deltafifo.Bookmark {
		d.Object, d.Key = e.Object, object.KeyOf(e.Object)
	}
	if !stale { // a quiet server repeats its last bookmark
		r.queue.Add(d)
		r.rv = d.RV
	}
	r.update(func(s *Status) {
		s.RV, s.Attempts = r.rv, 0
		if d.Type == deltafifo.Bookmark {
			s.Bookmarks++
		} else {
			s.Events++
		}
	})
	return nil
}

func unknownEvent(t watch.EventType) *failure.Failure {
	return &failure.Failure{Phase: failure.PhaseDecode, Err: fmt.Errorf("unknown event type %q", t)}
}
