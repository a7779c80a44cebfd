package reflector

import (
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/source"
)

// How long watches must have failed in a row when one fails again, for a list to take the place of
// the next (L19). A server that refuses a watch may still serve lists: the kind has no watch, or RBAC
// grants none. A server that does not answer, or that asks for patience, would hardly serve a list, and
// after an outage every client would list at once: there the attempts have to be watches.
const (
	refusedPatience    = time.Minute
	unansweredPatience = 10 * time.Minute
)

// pollEvery is refusedPatience after a list. With the default Backoff every second attempt is then a
// list, one each 60 to 90 seconds, where client-go lists at every attempt, each 30 to 60 seconds.
const pollEvery = 30 * time.Second

// watchFailures notes since when watches have not kept the state current. Lists that fail count as
// lists: the next one is due as long after them.
type watchFailures struct {
	since   time.Time // the first failure in a row, or the last list since; zero while watches keep the state current
	refused time.Time // the same of refusals in a row; zero if the last failure was none
	polled  bool      // refusals led to a list, and every failure since was a refusal
	due     bool      // a list has to take the place of the next watch
}

// note takes note of a watch that brought nothing and failed. A watch that was accepted and then
// cut counts as unanswered: a proxy may have accepted it and pass nothing on.
func (f *watchFailures) note(now time.Time, fail *failure.Failure) {
	switch {
	case unreadable(fail), expired(fail.Err), errors.Is(fail.Err, ErrWentBack), errors.Is(fail.Err, ErrDeaf),
		errors.Is(fail.Err, errRelist):
		return // these have lists of their own
	case refusal(fail):
		if f.refused.IsZero() {
			f.refused = now
		}
	default:
		f.refused, f.polled = time.Time{}, false
	}
	if f.since.IsZero() {
		f.since = now
	}
	patience := refusedPatience
	if f.polled {
		patience = pollEvery
	}
	f.due = !f.refused.IsZero() && now.Sub(f.refused) >= patience || now.Sub(f.since) >= unansweredPatience
}

// refusal reports whether the server answered a watch with an error and did not ask for patience.
// A 502, 503 or 504 is mostly of a gateway that did not reach it.
func refusal(fail *failure.Failure) bool {
	var status apierrors.APIStatus
	if _, patience := source.RetryAfter(fail.Err); patience || !errors.As(fail.Err, &status) {
		return false
	}
	switch status.Status().Code {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return false
	}
	return true
}

// noteList takes note that a list begins.
func (f *watchFailures) noteList(now time.Time) {
	if !f.since.IsZero() {
		f.since = now
	}
	if !f.refused.IsZero() {
		f.refused = now
	}
	f.polled, f.due = f.polled || f.due && !f.refused.IsZero(), false
}

// listInsteadOfWatch replaces the next watch by a list if watches have failed for too long.
func (r *Reflector) listInsteadOfWatch(state State) State {
	if state != Watching || !r.failing.due {
		return state
	}
	before := r.Status()
	r.update(func(s *Status) { s.Polling = true })
	if !before.Polling && before.Failure != nil {
		r.opts.Logger.Warn("watches fail: listing instead, until one succeeds", "resource", before.Resource, "err", failure.Reason(before.Failure.Err))
	}
	return Listing
}

// noteOutcome takes note of how an attempt ended in which watches brought a number of changes and
// bookmarks.
func (r *Reflector) noteOutcome(state State, brought uint64, fail *failure.Failure) {
	switch {
	case brought > 0, fail == nil && state != Listing:
		r.failing = watchFailures{}
		r.update(func(s *Status) { s.Polling = false })
	case state == Watching && fail != nil:
		r.failing.note(time.Now(), fail)
	}
}
