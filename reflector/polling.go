package reflector

import (
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/source"
)

// After watches have failed in a row for this long, the reflector lists instead of watching (L19). A server
// that refuses a watch may still serve lists, for example because the kind cannot be watched or RBAC does not
// allow it. A server that does not respond, or asks clients to wait, is unlikely to serve a list either, and
// once an outage is over, all clients would list at the same time. In that case watches are retried for
// longer.
const (
	refusedPatience    = time.Minute
	unansweredPatience = 10 * time.Minute
)

// pollEvery replaces refusedPatience after the first list. With the default Backoff, every other attempt is
// then a list, which means a list every 60 to 90 seconds.
const pollEvery = 30 * time.Second

// watchFailures tracks how long watches have failed to keep the state current. A failed list restarts the
// interval too.
type watchFailures struct {
	since   time.Time // time of the first of the consecutive failures, or of the latest list after it; zero while watches work
	refused time.Time // the same for refusals; zero if the last failure was not a refusal
	polled  bool      // refusals led to a list, and every failure since then was a refusal
	due     bool      // a list must replace the next watch
}

// note records a watch that failed before delivering any events. If a watch was accepted and then cut off,
// that is treated as no response, because a proxy may have accepted the watch without forwarding it.
func (f *watchFailures) note(now time.Time, fail *failure.Failure) {
	switch {
	case unreadable(fail), expired(fail.Err), errors.Is(fail.Err, ErrWentBack), errors.Is(fail.Err, errRelist):
		return // these failures cause a list anyway
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

// refusal reports whether the server rejected a watch with an error other than a request to wait. A 502, 503
// or 504 usually comes from a gateway that did not reach the server.
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

// noteList records the start of a list.
func (f *watchFailures) noteList(now time.Time) {
	if !f.since.IsZero() {
		f.since = now
	}
	if !f.refused.IsZero() {
		f.refused = now
	}
	f.polled, f.due = f.polled || f.due && !f.refused.IsZero(), false
}

// listInsteadOfWatch makes the reflector list instead of opening the next watch if watches have been failing
// for too long.
func (r *Reflector) listInsteadOfWatch(state State) State {
	if state != Watching || !r.failing.due {
		return state
	}
	before := r.Status()
	r.update(func(s *Status) { s.Polling = true })
	if !before.Polling && before.Failure != nil {
		r.opts.Logger.Warn("watches are failing: listing instead until one succeeds", "resource", before.Resource, "err", failure.Reason(before.Failure.Err))
	}
	return Listing
}

// noteOutcome records the end of an attempt. brought is the total number of changes and bookmarks that its
// watches delivered.
func (r *Reflector) noteOutcome(state State, brought uint64, fail *failure.Failure) {
	switch {
	case brought > 0, fail == nil && state != Listing:
		r.failing = watchFailures{}
		r.update(func(s *Status) { s.Polling = false })
	case state == Watching && fail != nil:
		r.failing.note(time.Now(), fail)
	}
}
