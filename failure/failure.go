package failure

import (
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
)

// Failure is an error along with where, when and how often it occurred.
type Failure struct {
	Resource string
	Phase    Phase
	Key      object.Key // the affected object; zero if none
	Handler  string     // name and file:line of the user's function; set in PhaseHandler, in PhaseTransform, and in PhaseCache if the handler that changed the object is known
	Err      error

	Others   int       // earlier failures of the same function not reported because of rate limiting
	Attempts int       // consecutive failures, including this one
	Since    time.Time // time of the first of these
	Last     time.Time // time of this failure
}

// Error returns a message with the resource, phase, object and reason, the number of attempts, and
// how long ago the last one was.
func (f *Failure) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s: ", f.Resource, f.Phase)
	if f.Handler != "" {
		fmt.Fprintf(&b, "%s: ", f.Handler)
	}
	if f.Key != (object.Key{}) {
		fmt.Fprintf(&b, "%s: ", object.FormatKey(f.Key))
	}
	b.WriteString(Reason(f.Err))
	if f.Others > 0 {
		fmt.Fprintf(&b, ", and %d others before it", f.Others)
	}
	switch ago := time.Since(f.Last).Round(time.Second); {
	case f.Last.IsZero():
	case f.Attempts == 1:
		fmt.Fprintf(&b, " (1 attempt, %s ago)", ago)
	case f.Attempts > 1:
		fmt.Fprintf(&b, " (%d attempts, last %s ago)", f.Attempts, ago)
	}
	return b.String()
}

func (f *Failure) Unwrap() error { return f.Err }

// MarshalText makes the failure readable in JSON.
func (f *Failure) MarshalText() ([]byte, error) { return []byte(f.Error()), nil }

// Reason formats err, preceded by the API server's reason if there is one: "forbidden: pods is
// forbidden: User ...".
func Reason(err error) string {
	if err == nil {
		return "unknown"
	}
	err = Sound("user code", err)
	reason := strings.ToLower(string(apierrors.ReasonForError(err)))
	if reason == "" || strings.HasPrefix(strings.ToLower(err.Error()), reason) {
		return err.Error()
	}
	return reason + ": " + err.Error()
}

// Refused reports whether retries are unlikely to succeed until someone intervenes: permissions or
// credentials are missing, or the resource is not served.
func (f *Failure) Refused() bool {
	switch {
	case f.Phase == PhaseOptions, f.Phase == PhaseResolve && meta.IsNoMatchError(f.Err):
		return true
	case apierrors.IsForbidden(f.Err), apierrors.IsUnauthorized(f.Err),
		apierrors.IsNotFound(f.Err), apierrors.IsMethodNotSupported(f.Err):
		return true
	}
	return false
}

// NotServed reports whether the failure occurred because the server does not serve the kind, for
// example because its CustomResourceDefinition is not installed.
func (f *Failure) NotServed() bool {
	switch f.Phase {
	case PhaseResolve, PhaseList, PhaseWatchOpen, PhaseWatch:
		return meta.IsNoMatchError(f.Err) || apierrors.IsNotFound(f.Err)
	}
	return false // a transform's error, for example, may be about another kind
}

// Phase is the stage at which a failure occurred.
type Phase string

// The phases, in processing order.
const (
	PhaseOptions   Phase = "options"    // contradictory or impossible options
	PhaseResolve   Phase = "resolve"    // finding the endpoint that serves a kind
	PhaseList      Phase = "list"       // reading a list
	PhaseWatchOpen Phase = "watch open" // requesting a watch
	PhaseWatch     Phase = "watch"      // reading a watch
	PhaseDecode    Phase = "decode"     // decoding an object
	PhaseTransform Phase = "transform"  // calling a transform
	PhaseIndex     Phase = "index"      // calling an index function
	PhaseHandler   Phase = "handler"    // calling a handler
	PhaseCache     Phase = "cache"      // maintaining the cache
	PhaseSnapshot  Phase = "snapshot"   // writing the cache to a file
	PhaseHook      Phase = "hook"       // calling OnError, OnState or OnSync
)

// Verdict is an error handler's decision.
type Verdict uint8

const (
	// Retry means to continue. Lists and watches are retried after a back-off. A handler receives its next
	// event without one, and the failed event is not delivered again.
	Retry Verdict = iota
	// Stop makes Run return the failure.
	Stop
)

// String returns the name of the constant.
func (v Verdict) String() string {
	switch v {
	case Retry:
		return "Retry"
	case Stop:
		return "Stop"
	}
	return "Unknown"
}

// Missing reports whether err is the API server's response that an object does not exist. It is narrower than
// apierrors.IsNotFound, which is also true if the server does not serve the path: then the body is not a Status, and
// the response may come from a proxy that has no route to the API server, so the object may still exist.
func Missing(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
