package reflector

import (
	"errors"
	"fmt"
	"time"

	"github.com/millrace-dev/millrace/failure"
)

// State is the current activity of a reflector. See [Idle] for what each state does on failure.
type State uint8

const (
	// Idle means that Run has not been called yet.
	Idle State = iota
	// Listing means that a list is being read. On failure its items are discarded. After a back-off, the list
	// is read again, or the watch resumes if there is an unexpired resource version.
	Listing
	// InitialWatch means that the initial state is being read from a watch (a streaming list, KEP-3157). The
	// reflector falls back to a plain list if the server refuses the stream, closes it early, or does not end
	// it in time. After any other failure the stream is retried once before falling back.
	InitialWatch
	// Resuming means that a saved state is being brought up to date (see Reflector.Resume). The reflector
	// falls back to a list if the server no longer has the changes since then, contradicts the state, or does
	// not confirm it in time.
	Resuming
	// Connecting means that a watch from the last resource version was requested but the server has not
	// accepted it yet. Failures are handled as in Watching.
	Connecting
	// Watching means that the initial state is queued and the watch is delivering changes. After a normal
	// close, the next watch is opened immediately. After a failure, the reflector backs off and watches again
	// from the same resource version. If the resource version has expired, or a change could not be read
	// three times in a row, it backs off and lists. It also lists if watches have been failing for too long
	// (see Status.Polling).
	Watching
	// BackingOff means that the reflector is waiting to make the next attempt, or is waiting for OnError,
	// which may stop it.
	BackingOff
	// Stopped means that Run has returned. It may be called again.
	Stopped
)

// String returns the name of the constant.
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

// MarshalText makes the state readable in JSON.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Status is the state of a reflector at a point in time.
type Status struct {
	Resource string    // the resource, such as "pods" or "pods in namespace shop"
	State    State     // the current activity
	Since    time.Time // when it began
	RetryAt  time.Time // in BackingOff, the time of the next attempt; zero in other states and until OnError has returned
	Heard    time.Time // when the server last confirmed the state by a list, a change, a bookmark, or the normal end of a watch; zero before the first. Its age bounds how stale the cache can be (see Age)
	Waiting  string    // once a request has been waiting for a second, what it is waiting for, such as "no answer from HOST for 10s (TLS handshake)", or the transform or hook that has not returned; empty otherwise

	RV       string           // last queued resource version; empty before the first list
	Attempts int              // failures since the last success, which includes a watch that lasted a third of Backoff.Max; 0 if there is no problem
	Failure  *failure.Failure // the most recent failure, even if resolved; nil if there was none

	// Polling is true if the reflector lists instead of watching, because watches have failed for a minute
	// (if the server refuses them) or for ten minutes (if it does not respond). While watches are refused, it
	// lists every 60 to 90 seconds with the default Backoff. Polling ends when a watch delivers a change or a
	// bookmark, or ends normally.
	Polling bool

	// Resumed is true if the last list came from a saved state that the server confirmed or corrected (see
	// Reflector.Resume).
	Resumed bool

	Lists      uint64 // lists and streaming lists started
	Relists    uint64 // lists that replaced an existing state, except lists after gains; more than a few per hour indicate that watches are falling behind the server's history
	Watches    uint64 // watches started, including streaming lists
	Events     uint64 // changes queued
	Bookmarks  uint64 // bookmarks queued; if a quiet watch receives none for minutes, its version may be expired at every reconnect
	Passed     uint64 // changes to objects that are not owned (see Ownership)
	Duplicates uint64 // events dropped because they were not new
	Failures   uint64 // failures in all phases

	// Unordered is true if a change with a version lower than RV turned out to be new. The server's resource
	// versions are then not ordered across objects, so RV does not show how complete the cache is, and
	// waiting for an RV is unreliable (see Settle).
	Unordered bool

	serving bool // since Failure, the server has accepted a streaming list or sent an item of a list
}

// Held reports whether a watch is open but its events are held up by a transform or a hook (see Waiting).
func (s Status) Held() bool { return s.State == Watching && s.Waiting != "" }

// Age returns the time since the server last confirmed the state. Changes made since then may be missing from
// the cache. It is 0 before the first list. An open watch keeps it below about a minute, the interval of the
// API server's bookmarks (KEP-956). If the server does not send bookmarks, Age is 0 while a watch is open.
func (s Status) Age(now time.Time) time.Duration {
	if s.Heard.IsZero() || s.State == Watching && s.Bookmarks == 0 && s.Attempts == 0 && !s.Held() {
		return 0
	}
	return max(0, now.Sub(s.Heard))
}

// Silence returns how long the watch has been silent, or 0 if none is open or if it is Held. The API server
// sends a bookmark every minute (KEP-956): after two minutes of silence the watch may be dead, and the cache
// stale, even though no request has failed.
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

// NotServed reports whether, according to its last response, the server does not serve the kind.
func (s Status) NotServed() bool { return s.Attempts > 0 && !s.serving && s.Failure.NotServed() }

// recovered reports whether a run of broken streams is over because the current one has lasted long enough,
// even without events. If the failure was silence, further silence does not end the run.
func (s *Status) recovered(now time.Time, served time.Duration) bool {
	return s.State == Watching && s.Attempts > 0 && s.Failure.Phase == failure.PhaseWatch &&
		!errors.Is(s.Failure.Err, ErrStalled) && !errors.Is(s.Failure.Err, ErrDeaf) && now.Sub(s.Since) >= served
}

// Missing returns an error describing why there is no initial list. It wraps the current failure, if any.
func (s Status) Missing() error {
	inState := fmt.Sprintf("%s for %s", s.State, time.Since(s.Since).Round(time.Second))
	if s.Waiting != "" {
		inState += ": " + s.Waiting
	}
	switch {
	case s.Attempts > 0:
		return fmt.Errorf("%w; %s", s.Failure, inState) // the failure starts with the name
	case s.State == Idle, s.State == Stopped:
		return fmt.Errorf("%s: the informer is not running: call its Run, or start its factory", s.Resource)
	}
	return fmt.Errorf("%s: %s, no failure so far", s.Resource, inState)
}
