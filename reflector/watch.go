package reflector

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/wire"
)

// shortWatch is how long a watch must have lasted for the next one to be opened at once. A
// server may close shortTries-1 in a row sooner if each has brought a change that is news.
const (
	shortWatch = time.Second
	shortTries = 3
)

// watches is how the watches of a reflector have fared.
type watches struct {
	received       uint64        // changes and bookmarks that they have brought
	news           uint64        // changes of a later version than all before, and whole sets
	short          int           // watches in a row that lasted for less than shortWatch
	base           string        // the version from which the history is read that the watch in progress brings
	silent         time.Duration // for how long they have brought none
	watched        string        // the version from which the last one was opened
	unreadable     int           // from there, in a row, that broke at a change that cannot be read
	failing        watchFailures // since when they do not keep the state current
	noStream       bool          // streaming lists are not to be tried (again)
	streamFailures int
}

// initialWatch reads the initial state from a watch and stays on it.
func (r *Reflector) initialWatch(ctx context.Context) *failure.Failure {
	r.beginList()
	yes := true
	opts := r.opts.selectors()
	opts.SendInitialEvents = &yes
	opts.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	return r.checkRollback(ctx, r.runWatch(ctx, opts, r.opts.watchTimeout(), new(streamedSet)))
}

// watch follows the changes from the last resource version.
func (r *Reflector) watch(ctx context.Context) *failure.Failure {
	opts := r.opts.selectors()
	r.watched = r.resumeRV()
	r.base = r.watched
	opts.ResourceVersion = r.watched
	received, opened := r.received, time.Now()
	fail := r.runWatch(ctx, opts, r.opts.watchTimeout(), nil)
	if r.silent += time.Since(opened); r.received != received {
		r.silent = 0
	}
	if fail == nil {
		r.noteHeard(time.Now())
	}
	return r.checkRollback(ctx, fail)
}

// stream is a watch that the server has accepted.
type stream struct {
	*Reflector
	ctx      context.Context
	dog      *watchdog
	opened   time.Time
	lifetime time.Duration // within which it has to end
	before   time.Duration // in transforms and hooks, before it was opened
	gathered bool          // a set, which is queued
}

// open is for how long the stream has been open, without the time in transforms and hooks.
func (s *stream) open() time.Duration {
	return time.Since(s.opened) - (s.calls.total() - s.before)
}

// expectNext has the watchdog wait for the next event of a set.
func (s *stream) expectNext() {
	s.dog.feed(min(s.opts.Timing.StreamIdle, s.opts.Timing.StreamTimeout-s.open()))
}

// startFollowing has the watchdog expect the end of the watch. Others may end it from now on. A watch
// that outlives its time and still brings something has not fallen silent.
func (s *stream) startFollowing() {
	s.dog.expect(s.lifetime-s.open(), ErrStalled)
	s.dog.excuse(func() bool { return s.calls.busy() || time.Since(s.Status().Heard) < s.opts.Timing.WatchMargin })
	s.enter(Watching)
	s.setEndWatch(s.dog.cancel)
}

// failureOf returns the failure of a watch that broke.
func (s *stream) failureOf(err error) *failure.Failure {
	if s.gathered && errors.Is(context.Cause(s.ctx), ErrNoEnd) {
		return &failure.Failure{Phase: failure.PhaseWatch, Err: ErrLateEnd}
	}
	return failed(s.ctx, failure.PhaseWatch, err)
}

// runWatch opens a watch and reads it to its end. If there is a set, it gathers and queues that first.
func (r *Reflector) runWatch(ctx context.Context, opts metav1.ListOptions, lifetime time.Duration, set setCollector) *failure.Failure {
	asked := time.Now()
	seconds := int64(lifetime.Seconds())
	opts.TimeoutSeconds, opts.AllowWatchBookmarks = &seconds, true
	patience := r.opts.Timing.StallTimeout
	if set != nil {
		patience = min(r.opts.Timing.StreamIdle, r.opts.Timing.StreamTimeout)
	}
	ctx, dog := startWatchdog(ctx, min(patience, lifetime+r.opts.Timing.WatchMargin), ErrNoAnswer)
	defer dog.stop()
	defer r.setEndWatch(nil)
	dog.excuse(func() bool {
		return r.calls.busy() || r.inFlight.Load().Resting() && time.Since(asked) < r.opts.Timing.StallTimeout
	})
	defer r.calls.stop()

	r.update(func(s *Status) { s.Watches++ })
	ctx, answered := r.trackRequest(ctx)
	defer answered() // also if the source panics
	events, err := r.source.Watch(ctx, r.request(opts, opts.SendInitialEvents != nil))
	answered()
	if err != nil {
		return failed(ctx, failure.PhaseWatchOpen, err)
	}
	s := &stream{Reflector: r, ctx: ctx, dog: dog, opened: asked, before: r.calls.total()}
	s.lifetime = r.opts.replayedLifetime(&r.pace.recall, lifetime) + r.opts.Timing.WatchMargin
	if set != nil {
		s.opened = time.Now()
		dog.expect(patience, ErrNoEnd)
	} else {
		r.endOpenFailures()
		s.startFollowing()
	}
	news := r.news
	for e, err := range events {
		if err != nil {
			return s.failureOf(err)
		}
		if e.Passed == nil {
			if fail := r.checkObject(e.Object); fail != nil {
				return fail
			}
		}
		if set == nil {
			if err := r.waitForRoom(ctx, dog); err != nil {
				return s.failureOf(err)
			}
			if fail := r.queueEvent(e); fail != nil {
				return fail
			}
			continue
		}
		r.noteGathered(e)
		whole, fail := set.add(e)
		switch {
		case fail != nil:
			return fail
		case whole == "":
			s.expectNext()
		default:
			items := set.take()
			set, s.gathered = nil, true
			if fail := r.replace(items, whole, s.opened, failure.PhaseWatch); fail != nil {
				return fail
			}
			r.base = whole
			s.startFollowing()
		}
	}
	switch {
	case ctx.Err() != nil:
		return s.failureOf(ctx.Err())
	case set != nil:
		return &failure.Failure{Phase: failure.PhaseWatch, Err: ErrCutShort}
	case time.Since(s.opened) >= shortWatch:
		r.short = 0
	default:
		if r.short++; r.news == news || r.short == shortTries {
			r.short = 0
			return &failure.Failure{Phase: failure.PhaseWatch, Err: ErrShortWatch}
		}
	}
	r.resetAttempts()
	return nil
}

// waitForRoom waits until the queue has room. Meanwhile the server is not to blame for
// silence.
func (r *Reflector) waitForRoom(ctx context.Context, dog *watchdog) error {
	dog.busy.Store(true)
	defer dog.busy.Store(false)
	return r.queue.WaitForRoom(ctx)
}

// noteReceived notes that a watch has brought a change or a bookmark.
func (r *Reflector) noteReceived(rv string, at time.Time) {
	r.received++
	r.last = rv
	r.noteHeard(at)
}

// noteHeard notes when the server last told of the state. A source other than the wire may not say.
func (r *Reflector) noteHeard(at time.Time) {
	if at.IsZero() {
		at = time.Now()
	}
	r.heardAt.Store(int64(at.Sub(r.created)))
}

// endOpenFailures ends a series of failures to come this far. One of reading or
// decoding ends only with a change that was read.
func (r *Reflector) endOpenFailures() {
	r.update(func(s *Status) {
		if s.Failure != nil && (s.Failure.Phase == failure.PhaseWatchOpen || s.Failure.Phase == failure.PhaseResolve) {
			s.Attempts = 0
		}
	})
}

// queueEvent queues one change. Its RV counts as seen only then.
func (r *Reflector) queueEvent(e wire.Event[object.Head]) *failure.Failure {
	if e.Passed != nil {
		return r.queuePassed(e)
	}
	rv := e.Object.GetResourceVersion()
	if e.Type == watch.Bookmark {
		return r.queueBookmark(rv, e)
	}
	if rv == "" {
		return &failure.Failure{Phase: failure.PhaseDecode, Key: object.KeyOf(e.Object), Err: ErrNoRV}
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
	r.noteReceived(rv, e.Received)
	if d.Late = !r.isNewer(rv); d.Late {
		r.queue.Add(d)
		return nil
	}
	d.RV = rv
	r.queue.Add(d)
	r.rv = rv
	r.news++
	r.update(func(s *Status) {
		s.RV, s.Attempts = rv, 0
		s.Events++
	})
	return nil
}

// queueBookmark queues one. A quiet server repeats its last one. The reflector ignores a bookmark that is
// older than an event of its watch, and one without a version, which some aggregated servers send.
func (r *Reflector) queueBookmark(rv string, e wire.Event[object.Head]) *failure.Failure {
	switch {
	case rv == "":
		return nil
	case !r.rolledBack(rv):
	case !older(rv, r.base):
		r.noteHeard(e.Received)
		return nil
	default:
		return &failure.Failure{Phase: failure.PhaseWatch, Err: fmt.Errorf("a bookmark at %s after %s: %w", rv, r.rv, errRolledBack)}
	}
	if r.isNewer(rv) {
		r.queue.Add(deltafifo.Delta{Type: deltafifo.Bookmark, RV: rv, Received: e.Received, Decoded: e.Decoded})
		r.rv = rv
	}
	r.noteReceived(rv, e.Received)
	r.update(func(s *Status) {
		s.RV, s.Attempts = rv, 0
		s.Bookmarks++
	})
	return nil
}

func unknownEvent(t watch.EventType) *failure.Failure {
	return &failure.Failure{Phase: failure.PhaseDecode, Err: fmt.Errorf("unknown event type %q", t)}
}
