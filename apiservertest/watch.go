package apiservertest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// watcher is one watch in progress:
//
//  1. start chooses the start position: the current objects, or a past version
//  2. the initial objects are sent and, for a streaming list, the bookmark that ends
//     them
//  3. stream sends changes starting at next, then waits for a change, a bookmark or the timeout
//
// All fields belong to the request's goroutine.
type watcher struct {
	*call
	sel       *selector
	bookmarks bool
	next      int    // position of the first unsent change
	sent      uint64 // all matching changes up to this version have been sent
	ahead     bool   // the client requested a version that the server has not seen yet
	initial   []*version
	endDue    bool // the initial-events-end bookmark has yet to be sent
	deadline  time.Time
	epoch     int // the view's epoch when the watch started
	buffer    []byte
	frames    int
}

// never is a duration that exceeds that of any test.
const never = 1 << 62 * time.Nanosecond

// errWatchOver ends a watch normally, as the timeout does.
var errWatchOver = errors.New("watch over")

func (c *call) watch() error {
	opts, sel, err := c.listOptions()
	if err != nil {
		return err
	}
	rv, err := parseRV(opts.ResourceVersion)
	if err != nil {
		return unclassified(err.Error()) // for a list, the real server inconsistently returns 400
	}
	w := &watcher{call: c, sel: sel, bookmarks: opts.AllowWatchBookmarks}
	w.deadline = time.Now().Add(c.watchTimeout(opts))
	streaming := opts.SendInitialEvents != nil && *opts.SendInitialEvents
	var startErr error
	if streaming {
		required := rv
		if opts.ResourceVersion == "" {
			required = c.newest()
		}
		startErr = c.waitFresh(required)
	}
	if startErr == nil {
		startErr = w.start(opts, rv)
	}
	if apierrors.IsNotFound(startErr) { // the resource was removed while the watch waited
		return startErr
	}
	c.w.Header().Set("Content-Type", c.watchType())
	c.w.WriteHeader(http.StatusOK)
	if err := c.w.flush(); err != nil {
		return err
	}
	if startErr != nil { // sent in the stream, as the real watch cache does
		err = w.sendError(startErr)
	} else {
		err = w.run()
	}
	if errors.Is(err, errWatchOver) {
		return nil
	}
	return err
}

// watchType returns the content type of a watch response: JSON without parameters, or a CBOR sequence (RFC
// 8742).
func (c *call) watchType() string {
	switch {
	case c.format.proto():
		return typeProto + ";stream=watch"
	case c.format.cbor():
		return typeCBOR + "-seq"
	}
	return typeJSON
}

func (c *call) watchTimeout(opts *internalversion.ListOptions) time.Duration {
	if opts.TimeoutSeconds != nil && *opts.TimeoutSeconds > 0 {
		return time.Duration(*opts.TimeoutSeconds) * time.Second
	}
	if c.server.opts.WatchTimeout > 0 {
		return c.server.opts.WatchTimeout
	}
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	random := c.server.timeouts.of(c.r.UserAgent() + " " + c.r.URL.Path)
	return time.Duration(float64(30*time.Minute) * (1 + random.Float64()))
}

// start sets the watch's start position and its initial objects.
func (w *watcher) start(opts *internalversion.ListOptions, rv uint64) error {
	s := w.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.coll.gone {
		return notServed()
	}
	s.advance()
	w.epoch = s.view.epoch
	streaming := opts.SendInitialEvents != nil && *opts.SendInitialEvents
	synthetic := rv == 0 && (opts.SendInitialEvents == nil || streaming)
	switch floor := s.floorOf(w.coll); {
	case streaming || synthetic:
		w.initial, w.sent = s.list(w.coll, w.sel.prefix, w.sel.prefix), s.seenOf(w.coll)
	case rv == 0: // sendInitialEvents=false: only new changes
		w.sent = s.seenOf(w.coll)
	case rv < floor:
		return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", rv, floor))
	default:
		w.sent = rv
	}
	if streaming && w.bookmarks {
		w.endDue = true
	}
	w.next = w.coll.position(w.sent)
	return nil
}

// run sends events until the watch ends.
func (w *watcher) run() error {
	w.injectRaw()
	if w.faults.errorAt == 0 {
		return w.faultError()
	}
	for _, v := range w.initial {
		v = v.readAs(w.reading)
		if !w.sel.matches(v) {
			continue
		}
		if err := w.send(watch.Added, v); err != nil {
			return err
		}
	}
	w.initial = nil
	return w.stream()
}

// stream sends changes and bookmarks.
func (w *watcher) stream() error {
	timeout := time.NewTimer(time.Until(w.deadline))
	defer timeout.Stop()
	bookmark := time.NewTimer(w.untilBookmark())
	defer bookmark.Stop()
	more := time.NewTimer(never)
	defer more.Stop()
	due := false
	for {
		changed, next, err := w.catchUp()
		if errors.Is(err, errWatchOver) {
			return errors.Join(w.flushed(), err)
		}
		if err != nil {
			return err
		}
		if !next.IsZero() {
			more.Reset(time.Until(next))
		}
		if err := w.sendBookmarks(due); err != nil {
			return err
		}
		if err := w.flushed(); err != nil {
			return err
		}
		if due {
			bookmark.Reset(w.untilBookmark())
			due = false
		}
		select {
		case <-changed:
		case <-more.C:
		case <-bookmark.C:
			due = true
		case <-timeout.C:
			return nil
		case <-w.coll.removed: // catchUp handles it
		case <-w.ctx.Done():
			return context.Cause(w.ctx)
		}
	}
}

// untilBookmark returns the time until the next bookmark, which is due after one period or, if sooner, two
// seconds before the watch times out, as on a real server.
func (w *watcher) untilBookmark() time.Duration {
	period := w.server.opts.BookmarkPeriod
	if last := time.Until(w.deadline) - 2*time.Second; last > 0 && last < period {
		return last
	}
	return period
}

// catchUp sends the visible changes. It returns a channel that is closed on the next change, and the time
// at which more changes become visible, or zero if none is scheduled. It returns an error when the watch
// must end.
func (w *watcher) catchUp() (<-chan struct{}, time.Time, error) {
	s := w.server
	for {
		s.mu.Lock()
		next := s.advance()
		events, ok := w.coll.since(w.next)
		if !w.coll.gone { // a removal is immediately visible on all servers
			events = upTo(events, s.seenOf(w.coll))
		}
		seen, changed, gone, over := s.seenOf(w.coll), w.coll.changed, w.coll.gone, s.view.epoch != w.epoch
		s.mu.Unlock()
		if over {
			return nil, next, errCut
		}
		if !ok {
			// The real server closes a watch that cannot keep up; the client's next request fails because
			// the version has expired.
			return nil, next, errWatchOver
		}
		for _, e := range events {
			w.next++
			if e.rv <= w.sent {
				continue // the client requested a future version
			}
			kind, v, ok := e.seenBy(w.sel, w.reading)
			if !ok {
				continue
			}
			if err := w.send(kind, v); err != nil {
				return nil, next, err
			}
		}
		if gone && len(events) == 0 {
			// Don't send a bookmark: later versions do not belong to this collection.
			return nil, next, errWatchOver
		}
		w.ahead = w.sent > seen
		w.sent = max(w.sent, seen)
		if len(events) == 0 {
			return changed, next, nil
		}
	}
}

// sendBookmarks sends the bookmark that ends a streaming list or, if due is set, a
// periodic one.
func (w *watcher) sendBookmarks(due bool) error {
	if w.endDue {
		w.endDue = false
		if w.faults.withholdEnd {
			return nil
		}
		return w.sendBookmark(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	if !due || !w.bookmarks || w.ahead || w.faults.noBookmarks {
		return nil
	}
	for range 1 + w.faults.repeatBookmarks {
		if err := w.sendBookmark(nil); err != nil {
			return err
		}
	}
	return nil
}

func (w *watcher) sendBookmark(annotations map[string]string) error {
	obj := w.coll.New()
	if !w.faults.bareBookmarks {
		obj.SetResourceVersion(formatRV(w.sent))
	}
	obj.SetAnnotations(annotations)
	v := &version{res: &w.coll.Resource, rv: w.sent, obj: obj}
	return w.send(watch.Bookmark, v)
}

// send queues one event; flushed writes out the queue.
func (w *watcher) send(kind watch.EventType, v *version) error {
	e, err := v.encode(w.format)
	if err != nil {
		return w.sendError(apierrors.NewInternalError(err))
	}
	return w.sendFrame(kind, e.body)
}

// sendError sends an ERROR event, which ends the watch.
func (w *watcher) sendError(err error) error {
	status, ok := err.(apierrors.APIStatus)
	if !ok {
		return err
	}
	body, err := encodeStatus(status.Status(), w.format)
	if err != nil {
		return err
	}
	if err := w.sendFrame(watch.Error, body); err != nil {
		return err
	}
	return w.last()
}

// flushed writes the queue to the connection.
func (w *watcher) flushed() error {
	if len(w.buffer) == 0 {
		return nil
	}
	_, err := w.w.Write(w.buffer)
	w.buffer = w.buffer[:0]
	if err != nil {
		return err
	}
	return w.w.flush()
}
