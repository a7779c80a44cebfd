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

// The reflector backs off after a watch shorter than shortWatch, except that up to shortTries-1 watches in a
// row may be shorter if each delivered a new change.
const (
	shortWatch = time.Second
	shortTries = 3
)

// watches tracks the watches of a reflector.
type watches struct {
	received       uint64        // changes and bookmarks received
	news           uint64        // changes with a new version, and lists
	short          int           // consecutive watches shorter than shortWatch
	base           string        // the resource version at which the current watch started
	silent         time.Duration // how long watches have been silent
	watched        string        // the resource version with which the last watch was opened
	unreadable     int           // consecutive watches from that version that failed on an unreadable change
	failing        watchFailures // tracks how long watches have failed to keep the state current
	noStream       bool          // do not try a streaming list (again)
	streamFailures int
}

// initialWatch reads the initial state from a watch and continues with that watch.
func (r *Reflector) initialWatch(ctx context.Context) *failure.Failure {
	r.beginList()
	yes := true
	opts := r.opts.selectors()
	opts.SendInitialEvents = &yes
	opts.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	return r.checkRollback(ctx, r.runWatch(ctx, opts, r.opts.watchTimeout(), new(streamedSet)))
}

// watch follows changes from the last resource version.
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
	if fail = r.checkRollback(ctx, fail); fail == nil {
		r.noteHeard(time.Now())
	}
	return fail
}

// stream is a watch that the server has accepted.
type stream struct {
	*Reflector
	ctx      context.Context
	dog      *watchdog
	opened   time.Time
	lifetime time.Duration // how long it may stay open
	before   time.Duration // time spent in transforms and hooks before it was opened
	gathered bool          // the stream's list is queued
}

// open returns how long the stream has been open, not counting time in transforms and hooks.
func (s *stream) open() time.Duration {
	return time.Since(s.opened) - (s.calls.total() - s.before)
}

// expectNext resets the watchdog to wait for the next event in a list.
func (s *stream) expectNext() {
	s.dog.feed(min(s.opts.Timing.StreamIdle, s.opts.Timing.StreamTimeout-s.open()))
}

// startFollowing sets the watchdog to the watch's lifetime, and lets other goroutines end the watch. A watch
// that exceeds its lifetime but still delivers events is not stalled.
func (s *stream) startFollowing() {
	s.dog.expect(s.lifetime-s.open(), ErrStalled)
	s.dog.excuse(func() bool { return s.calls.busy() || time.Since(s.Status().Heard) < s.opts.Timing.WatchMargin })
	s.enter(Watching)
	s.setEndWatch(s.dog.cancel)
}

// failureOf returns the failure for a broken watch.
func (s *stream) failureOf(err error) *failure.Failure {
	if s.gathered && errors.Is(context.Cause(s.ctx), ErrNoEnd) {
		return &failure.Failure{Phase: failure.PhaseWatch, Err: ErrLateEnd}
	}
	return failed(s.ctx, failure.PhaseWatch, err)
}

// runWatch opens a watch and reads it until it ends. If set is not nil, it first collects and queues that
// list.
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
	defer answered() // even if the source panics
	events, err := r.source.Watch(ctx, r.request(opts, opts.SendInitialEvents != nil))
	answered()
	if err != nil {
		return failed(ctx, failure.PhaseWatchOpen, err)
	}
	s := &stream{Reflector: r, ctx: ctx, dog: dog, opened: asked, before: r.calls.total()}
	s.lifetime = r.opts.replayedLifetime(&r.pace.recall, lifetime) + r.opts.Timing.WatchMargin
	r.noteServing()
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

// waitForRoom waits until the queue has room. Silence during that time is not the server's fault.
func (r *Reflector) waitForRoom(ctx context.Context, dog *watchdog) error {
	dog.busy.Store(true)
	defer dog.busy.Store(false)
	return r.queue.WaitForRoom(ctx)
}

// noteReceived records a change or bookmark from a watch.
func (r *Reflector) noteReceived(rv string, at time.Time) {
	r.received++
	r.last = rv
	r.noteHeard(at)
}

// noteHeard records when the server last confirmed the state. A zero time means now; sources other than rest
// use it.
func (r *Reflector) noteHeard(at time.Time) {
	if at.IsZero() {
		at = time.Now()
	}
	r.heardAt.Store(int64(at.Sub(r.created)))
}

// noteServing records that the server serves the kind, although it has not sent a complete list yet.
func (r *Reflector) noteServing() { r.update(func(s *Status) { s.serving = true }) }

// endOpenFailures ends a run of failed attempts to open a watch. A run of read or decode failures ends only
// once a change has been read.
func (r *Reflector) endOpenFailures() {
	r.update(func(s *Status) {
		if s.Failure != nil && (s.Failure.Phase == failure.PhaseWatchOpen || s.Failure.Phase == failure.PhaseResolve) {
			s.Attempts = 0
		}
	})
}

// queueEvent queues one change. Only then is the change's RV treated as seen.
func (r *Reflector) queueEvent(e wire.Event[object.Head]) *failure.Failure {
	if e.Passed != nil {
		return r.queuePassed(e)
	}
	rv := e.Object.GetResourceVersion()
	if e.Type == watch.Bookmark {
		return r.queueBookmark(rv, e)
	}
	if noRV(rv) {
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

// queueBookmark queues a bookmark. A quiet server repeats its last bookmark. Bookmarks older than an event
// from the same watch are ignored, as are bookmarks without a version, which some aggregated servers send.
func (r *Reflector) queueBookmark(rv string, e wire.Event[object.Head]) *failure.Failure {
	switch {
	case noRV(rv):
		return nil
	case !r.rolledBack(rv):
	case !older(rv, r.base):
		r.noteHeard(e.Received)
		return nil
	default:
		return &failure.Failure{Phase: failure.PhaseWatch, Err: fmt.Errorf("a bookmark at version %s after %s: %w", rv, r.rv, errRolledBack)}
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
