package events

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
)

const (
	refreshInterval = time.Minute      // interval between writes of a series
	writeTimeout    = 10 * time.Second // timeout of a single write
	patience        = 10 * time.Minute // how long an event is retried after it was last recorded
	firstWait       = time.Second      // delay after a failed write; doubled up to lastWait
	lastWait        = time.Minute
)

// Run sends events until ctx is done. It then spends at most Options.Flush on sending the remaining ones,
// and returns nil. It fails immediately if the API does not accept the controller's name, and with
// ErrRunning if another call is running. It may be called again after it has returned, and then starts with
// the events that were left.
func (r *Recorder) Run(ctx context.Context) error {
	if err := r.valid(); err != nil {
		return err
	}
	if err := r.begin(); err != nil {
		return err
	}
	defer r.end()
	refresh := time.NewTicker(refreshInterval)
	defer refresh.Stop()
	retry := time.NewTimer(refreshInterval)
	retry.Stop() // not needed until a write fails
	defer retry.Stop()
	var state sending
	late := false // the counts are to be written when the server is up again
	for {
		select {
		case <-r.wake:
			if state.down {
				continue // the new event is sent when the others are retried
			}
			state = r.createAll(ctx, state.wait)
		case <-retry.C:
			if late { // creates may go on failing, while updates succeed
				late = false
				r.updateAll(ctx)
				refresh.Reset(refreshInterval)
			}
			state = r.createAll(ctx, state.wait)
		case <-refresh.C:
			r.expire(time.Now())
			late = state.down
			if late || !r.updateAll(ctx) {
				r.giveUp(time.Now())
			}
			continue
		case <-ctx.Done():
			r.flush(ctx)
			return nil
		}
		if state.wait > 0 {
			retry.Reset(state.wait)
		}
	}
}

// begin claims the recorder for one Run. Two concurrent Runs are not allowed, because once one of them
// returned, events would be dropped even though the other was still running.
func (r *Recorder) begin() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running {
		return fmt.Errorf("%s: %w", r, ErrRunning)
	}
	r.running, r.ended = true, false
	if len(r.waiting) > 0 { // left by an earlier Run
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
	return nil
}

func (r *Recorder) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running, r.ended = false, true
}

// sending is the outcome of the last send attempt.
type sending struct {
	wait time.Duration // until the next attempt; 0 if nothing failed
	down bool          // the server is down: send no events until the wait is over
}

// severalFailures is the number of consecutive failures after which we assume that the problem is the
// server and not an event.
const severalFailures = 3

// flush sends the remaining events, and logs how many it could not send.
func (r *Recorder) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.opts.Flush)
	defer cancel()
	if s := r.unwritten; s != nil {
		if err := r.update(ctx, s); err != nil {
			r.lose(s, err)
		}
		r.unwritten = nil
	}
	for state := (sending{}); ctx.Err() == nil; {
		state = r.createAll(ctx, state.wait)
		if !state.down && r.updateAll(ctx) && state.wait == 0 {
			break
		}
		select {
		case <-time.After(max(state.wait, firstWait)):
		case <-ctx.Done():
		}
	}
	if s := r.unwritten; s != nil {
		r.lose(s, context.Cause(ctx))
		r.unwritten = nil
	}
	r.mu.Lock()
	r.ended = true
	left, repetitions := len(r.waiting), 0
	for _, s := range r.sent.all {
		repetitions += s.untold()
	}
	r.mu.Unlock()
	if left+repetitions > 0 {
		r.opts.Logger.Warn("some events were not sent", "controller", r.controller, "events", left, "repetitions", repetitions)
	}
}

// createAll tries to create the queued events. A failed event goes to the end of the queue, so that it
// does not delay the others.
func (r *Recorder) createAll(ctx context.Context, waited time.Duration) (state sending) {
	failed := 0
	for left := r.Status().Waiting; left > 0 && !state.down && ctx.Err() == nil; left-- {
		err := r.createFirst(ctx)
		if err == nil {
			failed = 0
			continue
		}
		failed++
		state.wait = min(max(firstWait, 2*waited), lastWait)
		asked, ok := source.RetryAfter(err)
		state.wait = max(state.wait, asked)
		state.down = ok || failed >= severalFailures
	}
	return state
}

// createFirst tries once to create the event that has waited the longest. It returns an error if
// the event should be retried.
func (r *Recorder) createFirst(ctx context.Context) error {
	r.mu.Lock()
	s := r.waiting[0] // only Run's goroutine removes it
	r.mu.Unlock()
	limited, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	_, err := r.resource.Create(limited, s.event, metav1.CreateOptions{})
	r.mu.Lock()
	r.waiting[0] = nil
	r.waiting = r.waiting[1:]
	switch {
	case err == nil, apierrors.IsAlreadyExists(err): // an earlier attempt created it, but the response was lost
		r.status.Created++
		s.told = max(1, count(s.event))
		r.sent.add(s)
		over := r.sent.over(r.opts.Limit)
		if over != nil {
			r.forget(over) // forget the series before writing its last count, so that it cannot grow afterwards
		}
		r.mu.Unlock()
		if over == nil {
			return nil
		}
		if err := r.update(ctx, over); err != nil {
			if ctx.Err() != nil && r.unwritten == nil {
				r.unwritten = over // flush will write it
				return nil
			}
			r.lose(over, err)
		}
		return nil
	case refused(err), time.Since(s.since) > patience:
		r.mu.Unlock()
		r.lose(s, err)
		return nil
	}
	r.waiting = append(r.waiting, s)
	r.mu.Unlock()
	return err
}

// count returns the number of occurrences with which an event is created.
func count(e *eventsv1.Event) int32 {
	if e.Series == nil {
		return 0
	}
	return e.Series.Count
}

// updateAll writes the counts of all series that have grown, and reports whether all writes succeeded.
// Failed writes are retried at the next refresh, after the others, so that they do not delay them.
func (r *Recorder) updateAll(ctx context.Context) (all bool) {
	r.mu.Lock()
	var grown []*series
	for _, s := range r.sent.all {
		if s.untold() > 0 {
			grown = append(grown, s)
		}
	}
	r.mu.Unlock()
	slices.SortStableFunc(grown, func(a, b *series) int { return a.tried.Compare(b.tried) })
	failed := 0
	all = true
	for _, s := range grown {
		if ctx.Err() != nil || failed >= severalFailures {
			return false
		}
		s.tried = time.Now()
		err := r.update(ctx, s)
		all = all && err == nil
		switch {
		case err == nil:
			failed = 0
		case failure.Missing(err):
			r.renew(s)
		default:
			failed++
		}
	}
	return all
}

// update tries once to write a series' count. It returns an error if the write should be retried,
// or if the server no longer has the event.
func (r *Recorder) update(ctx context.Context, s *series) error {
	r.mu.Lock()
	count, told, last := s.count, s.told, s.last
	r.mu.Unlock()
	if count <= told {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	patch, err := json.Marshal(map[string]any{"series": eventsv1.EventSeries{Count: count, LastObservedTime: metav1.NewMicroTime(last)}})
	if err == nil {
		_, err = r.resource.Patch(limited, object.KeyOf(s.event), types.MergePatchType, patch, metav1.PatchOptions{})
	}
	r.mu.Lock()
	switch {
	case err == nil:
		r.status.Updated++
		s.told = count
	case refused(err) && !failure.Missing(err):
		r.mu.Unlock()
		r.lose(s, err)
		return nil
	}
	r.mu.Unlock()
	return err
}

// renew queues a new event for a series, because the server has deleted the old one. By default, API
// servers keep events for one hour.
func (r *Recorder) renew(s *series) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known[s.key] != s || len(r.waiting) >= r.opts.Limit {
		return
	}
	r.sent.remove(s)
	event := s.event.DeepCopy()
	event.Name = nameFor(event.Regarding.Name)
	event.Series = &eventsv1.EventSeries{Count: s.count, LastObservedTime: metav1.NewMicroTime(s.last)}
	s.event, s.since = event, time.Now()
	r.waiting = append(r.waiting, s)
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// refused reports whether err means that a retry cannot succeed.
func refused(err error) bool {
	return apierrors.IsForbidden(err) || failure.Missing(err) || apierrors.IsInvalid(err) ||
		apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// lose forgets a series and counts its unreported occurrences as failed. It logs at a limited rate.
func (r *Recorder) lose(s *series, err error) {
	r.mu.Lock()
	r.status.Failed += uint64(s.untold())
	r.forget(s)
	r.mu.Unlock()
	r.unsent.Do(func(more int) {
		about := object.Key{Namespace: s.event.Regarding.Namespace, Name: s.event.Regarding.Name}
		r.opts.Logger.Warn("event not sent", "controller", r.controller, "reason", s.event.Reason,
			"about", fmt.Sprintf("%s %s", s.event.Regarding.Kind, object.FormatKey(about)), "err", err, "more", more)
	})
}

// expire forgets the series that are over.
func (r *Recorder) expire(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range slices.Clone(r.sent.all) {
		if s.over(now) {
			r.forget(s)
		}
	}
}

// giveUp drops events and counts that the server has not accepted for too long, to make room for current ones.
func (r *Recorder) giveUp(now time.Time) {
	var old []*series
	r.mu.Lock()
	r.waiting = slices.DeleteFunc(r.waiting, func(s *series) bool {
		if now.Sub(s.since) <= patience {
			return false
		}
		old = append(old, s)
		return true
	})
	for _, s := range r.sent.all {
		if s.untold() > 0 && now.Sub(s.last) > patience && s.tried.After(s.last) {
			old = append(old, s)
		}
	}
	r.mu.Unlock()
	for _, s := range old {
		r.lose(s, errTooOld)
	}
}

var errTooOld = fmt.Errorf("the API server did not accept it within %s", patience)
