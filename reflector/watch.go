package reflector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net"
	"net/http"
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
func (r *Reflector) initialWatch(ctx context.Context) (State, *failure.Failure) {
	r.countList()
	yes := true
	opts := r.opts.selectors()
	opts.SendInitialEvents = &yes
	opts.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	var initial initialSet
	next, fail := r.follow(ctx, opts, &initial)
	if initial.done {
		return r.unlessBack(ctx, next, fail)
	}
	if refusesStream(fail) && r.opts.Initial == Auto {
		// Rights may be granted and kinds installed later.
		r.noStream = !apierrors.IsForbidden(fail.Err) && !apierrors.IsNotFound(fail.Err)
		r.opts.Logger.Debug("streaming list refused, listing", "resource", r.Name(), "err", failure.Reason(fail.Err))
		return Listing, nil
	}
	gives, late := r.stopsStreaming(), errors.Is(fail.Err, ErrNoEnd)
	r.noStream = r.noStream || late
	if gives || late || expired(fail.Err) || errors.Is(fail.Err, ErrCutShort) || errors.Is(fail.Err, ErrNoAnswer) {
		return Listing, fail
	}
	return InitialWatch, fail
}

// stopsStreaming counts a streaming list that failed, and reports whether a list is to take its place.
func (r *Reflector) stopsStreaming() bool {
	r.streamFailures++
	return r.opts.Initial == Auto && r.streamFailures >= streamTries
}

// refusesStream reports whether a streaming list failed to open for a reason that may
// be about streaming. A list has to find out. It is not asked for where nobody
// answered, or where the answer says that a list would fare no better.
func refusesStream(f *failure.Failure) bool {
	if f.Phase != failure.PhaseWatchOpen {
		return false
	}
	var network net.Error
	var status apierrors.APIStatus
	switch {
	case errors.As(f.Err, &network), errors.Is(f.Err, io.EOF), errors.Is(f.Err, io.ErrUnexpectedEOF), errors.Is(f.Err, ErrNoAnswer):
		return false
	case errors.As(f.Err, &status):
		code := status.Status().Code
		return code < http.StatusInternalServerError && code != http.StatusTooManyRequests && code != http.StatusUnauthorized
	}
	return true
}

// watch follows the changes from the last resource version.
func (r *Reflector) watch(ctx context.Context) (State, *failure.Failure) {
	r.enter(Connecting)
	opts := r.opts.selectors()
	r.watched = r.from()
	opts.ResourceVersion = r.watched
	heard, opened := r.heard, time.Now()
	next, fail := r.follow(ctx, opts, nil)
	if r.mute += time.Since(opened); r.heard != heard {
		r.mute = 0
	}
	if fail == nil {
		r.hears(time.Now())
	}
	next, fail = r.unlessBack(ctx, next, fail)
	if r.looksPast(fail) {
		return Listing, fail
	}
	return next, fail
}

// looksPast counts a watch that has ended, if it broke at a change that cannot be read, and reports
// whether a list is to look past that.
func (r *Reflector) looksPast(f *failure.Failure) bool {
	if r.watched != r.from() {
		r.unreadable = 0
	}
	if f == nil || !unreadable(f) {
		return false
	}
	r.unreadable++
	rounds := r.unreadable / readTries
	return r.unreadable%readTries == 0 && bits.OnesCount(uint(rounds)) == 1
}

// unreadable reports whether f is about a change that arrived whole and could
// still not be used.
func unreadable(f *failure.Failure) bool {
	return f.Phase == failure.PhaseTransform || f.Phase == failure.PhaseDecode && !errors.Is(f.Err, io.ErrUnexpectedEOF)
}

// follow opens a watch and reads it to its end. With initial not nil it first
// gathers the initial state there.
func (r *Reflector) follow(ctx context.Context, opts metav1.ListOptions, initial *initialSet) (State, *failure.Failure) {
	opened := time.Now()
	lifetime := r.opts.watchTimeout()
	if initial != nil && initial.until != "" {
		lifetime = confirmWatch
	}
	seconds := int64(lifetime.Seconds())
	opts.TimeoutSeconds = &seconds
	opts.AllowWatchBookmarks = true
	margin := r.opts.Timing.WatchMargin

	patience := r.opts.Timing.StallTimeout
	if initial != nil {
		patience = min(r.opts.Timing.StreamIdle, r.opts.Timing.StreamTimeout)
	}
	ctx, dog := startWatchdog(ctx, min(patience, lifetime+margin), ErrNoAnswer)
	defer dog.stop()
	defer r.watching(nil)
	dog.excuse(func() bool {
		return r.calls.busy() || r.asking.Load().Resting() && time.Since(opened) < r.opts.Timing.StallTimeout
	})
	defer r.calls.stop()

	r.update(func(s *Status) { s.Watches++ })
	ctx, answered := r.ask(ctx)
	defer answered() // also if the source panics
	events, err := r.source.Watch(ctx, r.request(opts, 0))
	answered()
	if err != nil {
		return r.watchFailed(ctx, failure.PhaseWatchOpen, err)
	}
	lifetime = r.opts.recalled(&r.pace.recall, lifetime) + margin
	if initial == nil {
		dog.expect(lifetime-time.Since(opened), ErrStalled)
		r.accepted()
		r.enter(Watching)
		r.watching(dog.cancel)
	} else {
		opened = time.Now()
		dog.expect(patience, ErrNoEnd)
	}
	before := r.calls.total()
	open := func() time.Duration { return time.Since(opened) - (r.calls.total() - before) } // without the time in transforms and hooks
	from := r.from()
	broke := func(err error) (State, *failure.Failure) {
		if initial != nil && initial.done && errors.Is(context.Cause(ctx), ErrNoEnd) {
			return Watching, &failure.Failure{Phase: failure.PhaseWatch, Err: ErrLateEnd}
		}
		return r.watchFailed(ctx, failure.PhaseWatch, err)
	}
	for e, err := range events {
		if err != nil {
			return broke(err)
		}
		var fail *failure.Failure
		if e.Passed == nil {
			fail = r.unfit(e.Object)
		}
		if fail != nil {
			return r.first(), fail
		}
		if initial == nil || initial.done {
			if err := r.waitForRoom(ctx, dog); err != nil {
				return broke(err)
			}
			fail = r.apply(e)
		} else if fail = r.gather(initial, e, opened); fail == nil && initial.done {
			dog.expect(lifetime-open(), ErrStalled)
			r.enter(Watching)
			r.watching(dog.cancel)
		} else {
			dog.feed(min(r.opts.Timing.StreamIdle, r.opts.Timing.StreamTimeout-open()))
		}
		if fail != nil {
			return r.first(), fail
		}
	}
	switch {
	case ctx.Err() != nil:
		return broke(ctx.Err())
	case initial != nil && !initial.done:
		return InitialWatch, &failure.Failure{Phase: failure.PhaseWatch, Err: ErrCutShort}
	case r.from() == from && time.Since(opened) < shortWatch:
		return Watching, &failure.Failure{Phase: failure.PhaseWatch, Err: ErrShortWatch}
	}
	r.succeeded()
	return Watching, nil
}

// waitForRoom waits until the queue has room. Meanwhile the server is not to blame for
// silence.
func (r *Reflector) waitForRoom(ctx context.Context, dog *watchdog) error {
	dog.busy.Store(true)
	defer dog.busy.Store(false)
	return r.queue.WaitForRoom(ctx)
}

// watchFailed says where to go on after a watch failed to open or broke.
func (r *Reflector) watchFailed(ctx context.Context, phase failure.Phase, err error) (State, *failure.Failure) {
	next := Watching
	if _, users := errors.AsType[*TransformError](err); expired(err) && !users {
		r.expired = true
		next = r.first()
	}
	return next, failed(ctx, phase, err)
}

// hear notes that a watch has brought a change or a bookmark.
func (r *Reflector) hear(rv string, at time.Time) {
	r.heard++
	r.last = rv
	r.hears(at)
}

// hears notes when the server told of the state. A source of other than the wire may not say.
func (r *Reflector) hears(at time.Time) {
	if at.IsZero() {
		at = time.Now()
	}
	r.heardAt.Store(at.UnixNano())
}

// accepted ends a series of failures to come this far. One of reading or
// decoding ends only with a change that was read.
func (r *Reflector) accepted() {
	r.update(func(s *Status) {
		if s.Failure != nil && (s.Failure.Phase == failure.PhaseWatchOpen || s.Failure.Phase == failure.PhaseResolve) {
			s.Attempts = 0
		}
	})
}

// gather takes one event of a streaming list. Its end queues the set.
func (r *Reflector) gather(initial *initialSet, e wire.Event[object.Head], opened time.Time) *failure.Failure {
	if initial.until != "" {
		return r.gatherSince(initial, e, opened)
	}
	if e.Passed != nil {
		initial.pass(e)
		return nil
	}
	switch e.Type {
	case watch.Bookmark:
		if !endsInitial(e.Object) {
			return nil
		}
		rv := e.Object.GetResourceVersion()
		if rv == "" {
			return &failure.Failure{Phase: failure.PhaseWatch, Err: ErrNoRV}
		}
		return r.replace(initial.take(), rv, opened, failure.PhaseWatch)
	case watch.Added, watch.Modified, watch.Deleted:
		initial.apply(e.Type, e.Object)
		return nil
	}
	return unknownEvent(e.Type)
}

// apply queues one change. Its RV counts as seen only then.
func (r *Reflector) apply(e wire.Event[object.Head]) *failure.Failure {
	if e.Passed != nil {
		return r.pass(e)
	}
	rv := e.Object.GetResourceVersion()
	if rv == "" {
		return &failure.Failure{Phase: failure.PhaseDecode, Key: object.KeyOf(e.Object), Err: ErrNoRV}
	}
	if e.Type == watch.Bookmark {
		return r.bookmark(rv, e)
	}
	d := deltafifo.Delta{Key: object.KeyOf(e.Object), Object: e.Object, Received: e.Received, Decoded: e.Decoded}
	switch e.Type {
	case watch.Added:
		d.Type = deltafifo.Added
	case watch.Modified:
		d.Type = deltafifo.Updated
	case watch.Deleted:
		d.Type = deltafifo.Deleted
	default:
		return unknownEvent(e.Type)
	}
	r.hear(rv, e.Received)
	if d.Late = !r.ahead(rv); d.Late {
		r.queue.Add(d)
		return nil
	}
	d.RV = rv
	r.queue.Add(d)
	r.rv = rv
	r.update(func(s *Status) {
		s.RV, s.Attempts = rv, 0
		s.Events++
	})
	return nil
}

// bookmark queues one. A quiet server repeats its last one.
func (r *Reflector) bookmark(rv string, e wire.Event[object.Head]) *failure.Failure {
	if r.backTo(rv) {
		return &failure.Failure{Phase: failure.PhaseWatch, Err: fmt.Errorf("a bookmark at %s after %s: %w", rv, r.rv, ErrWentBack)}
	}
	if r.ahead(rv) {
		r.queue.Add(deltafifo.Delta{Type: deltafifo.Bookmark, RV: rv, Received: e.Received, Decoded: e.Decoded})
		r.rv = rv
	}
	r.hear(rv, e.Received)
	r.update(func(s *Status) {
		s.RV, s.Attempts = rv, 0
		s.Bookmarks++
	})
	return nil
}

func unknownEvent(t watch.EventType) *failure.Failure {
	return &failure.Failure{Phase: failure.PhaseDecode, Err: fmt.Errorf("unknown event type %q", t)}
}
