package reflector

import (
	"errors"
	"fmt"
	"time"

	"github.com/millrace-dev/millrace/failure"
)

// State is where a reflector is in its work.
type State uint8

const (
	// Idle: Run has not been called yet.
	Idle State = iota
	// Listing: reading a whole list. A failure discards what was read. After a
	// back-off the list is read again or, where a resource version has not
	// expired, the watch goes on.
	Listing
	// InitialWatch: reading the initial state from a watch (a streaming list,
	// KEP-3157). Where the server refuses it, closes it early, or does not end it in
	// time, a list takes its place; after another failure it is tried again,
	// and after the second a list takes its place too.
	InitialWatch
	// Resuming: bringing an earlier state up to date (see Reflector.Resume). Where the
	// server has forgotten the history since, contradicts the state, or does not confirm
	// it in time, a list takes its place.
	Resuming
	// Connecting: asking for a watch from the last resource version. The server
	// has not accepted it yet. A failure is as one of Watching.
	Connecting
	// Watching: the initial state is queued and changes follow. A normal close
	// is followed by the next watch at once, a failure by a back-off and the
	// next watch from the same resource version, an expired resource version
	// by a back-off and a list. So is a change that could not be read three
	// times in a row. A list also takes the place of watches that fail for too
	// long (see Status.Polling).
	Watching
	// BackingOff: waiting before the next attempt, or for OnError, which may end them.
	BackingOff
	// Stopped: Run has returned. It may be called again.
	Stopped
)

// String names the state as in its documentation.
func (s State) String() string {
	switch s {
	case Idle:
		return "Idle"
	case Listing:
		return "Listing"
	case InitialWatch:
		return "InitialWatch"
	case Resuming:
		return "Resuming"
	case Connecting:
		return "Connecting"
	case Watching:
		return "Watching"
	case BackingOff:
		return "BackingOff"
	case Stopped:
		return "Stopped"
	}
	return "Unknown"
}

// MarshalText lets a Status print readably as JSON.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Status is a reflector seen from outside at one moment.
type Status struct {
	Resource string    // what is reflected, such as "pods" or "pods in namespace shop"
	State    State     // where it is
	Since    time.Time // when it came there
	RetryAt  time.Time // in BackingOff, when it goes on; zero otherwise, and until OnError has returned
	Heard    time.Time // when the server last told of the state: by a list, a change, a bookmark, or the end of a watch in good order; zero before the first. Its age is how old the cache may be (see Age)
	Waiting  string    // what a request without an answer waits for, from the first second on, or the transform or hook that has not returned: "no answer from HOST for 10s (TLS handshake)"; empty otherwise

	RV       string           // the last resource version that is queued; empty before the first list
	Attempts int              // failures since the last success, such as a watch that has served for a third of Backoff.Max; 0 means that all is well
	Failure  *failure.Failure // the last failure ever, nil if there was none

	// Polling: watches have failed for a minute, if the server refuses them, or for ten if it
	// does not answer them, and a list takes the place of a watch. While watches are refused,
	// a list follows each 60 to 90 seconds, with the default Backoff. Polling ends when a watch
	// brings a change or a bookmark, or ends in good order.
	Polling bool

	// Resumed: the state began with an earlier one, which the server has confirmed or
	// corrected (see Reflector.Resume).
	Resumed bool

	Lists      uint64 // lists and streaming lists begun
	Relists    uint64 // those of them that replaced a state; more than a few an hour mean that watches fall behind the server's history. A list of objects that came to be owned is none
	Watches    uint64 // watches begun, streaming lists included
	Events     uint64 // changes queued
	Bookmarks  uint64 // bookmarks queued; none on a quiet watch for minutes means that every reconnect may expire
	Passed     uint64 // changes of objects that are not wanted (see Ownership)
	Duplicates uint64 // events that were dropped because they told nothing new
	Failures   uint64 // failures of all phases

	// Unordered: a change with a version below RV turned out to be news. The server's
	// resource versions do not grow over all objects, so that nobody can tell up to
	// where the cache is complete: RV and waiting for one mean little (see Settle).
	Unordered bool
}

// Held reports whether a watch is open, and what it brings waits for a transform or a hook (see
// Waiting).
func (s Status) Held() bool { return s.State == Watching && s.Waiting != "" }

// Age is how long ago the server last told of the state. Later changes may be missing from the
// cache. It is 0 before the first list. An open watch keeps it below a minute or
// so, which is how often the API server sends bookmarks (KEP-956). If the server sends none, it
// is 0 while a watch is open.
func (s Status) Age(now time.Time) time.Duration {
	if s.Heard.IsZero() || s.State == Watching && s.Bookmarks == 0 && s.Attempts == 0 && !s.Held() {
		return 0
	}
	return max(0, now.Sub(s.Heard))
}

// Silence is for how long the watch has brought nothing, 0 where none is open or where it is
// Held. The API server sends a bookmark every minute (KEP-956): after two without anything the
// watch may be dead, and the cache stale, though no request has failed.
func (s Status) Silence(now time.Time) time.Duration {
	if s.State != Watching || s.Held() || s.Heard.IsZero() {
		return 0
	}
	since := s.Since // when the server accepted the watch
	if s.Heard.After(since) {
		since = s.Heard
	}
	return max(0, now.Sub(since))
}

// NotServed reports whether the last that was heard is that the server does not serve
// the kind.
func (s Status) NotServed() bool { return s.Attempts > 0 && s.Failure.NotServed() }

// recovered reports whether the streams that broke are past, since the one after them has
// served for long enough, though nothing may have come by it. Silence tells nothing where
// silence was the failure.
func (s *Status) recovered(now time.Time, served time.Duration) bool {
	return s.State == Watching && s.Attempts > 0 && s.Failure.Phase == failure.PhaseWatch &&
		!errors.Is(s.Failure.Err, ErrStalled) && !errors.Is(s.Failure.Err, ErrDeaf) && now.Sub(s.Since) >= served
}

// Missing says why there is no initial list. The error wraps the failure in progress,
// if there is one.
func (s Status) Missing() error {
	inState := fmt.Sprintf("%s for %s", s.State, time.Since(s.Since).Round(time.Second))
	if s.Waiting != "" {
		inState += ": " + s.Waiting
	}
	switch {
	case s.Attempts > 0:
		return fmt.Errorf("%w; %s", s.Failure, inState) // which begins with the name
	case s.State == Idle, s.State == Stopped:
		return fmt.Errorf("%s: the informer does not run: call its Run, or start its factory", s.Resource)
	}
	return fmt.Errorf("%s: %s, no failure so far", s.Resource, inState)
}
