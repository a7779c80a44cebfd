package failure

import (
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/millrace-dev/millrace/object"
)

// Failure is what went wrong, where, and for how long.
type Failure struct {
	Resource string
	Phase    Phase
	Key      object.Key // the object concerned; zero if it is not about one
	Handler  string     // the user's function, by name and file:line: in PhaseHandler, in PhaseTransform, and in PhaseCache if it is known which one changed the object
	Err      error

	Others   int       // failures of the same function before this one that were counted and not reported, because there were too many in a second
	Attempts int       // failures in a row, this one included
	Since    time.Time // the first of them
	Last     time.Time // this one
}

// Error names resource, phase, object, reason, and how often and when.
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

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// MarshalText lets a Status print readably as JSON.
func (f *Failure) MarshalText() ([]byte, error) { return []byte(f.Error()), nil }

// Reason writes err with the API server's reason in front where there is one:
// "forbidden: pods is forbidden: User ...".
func Reason(err error) string {
	if err == nil {
		return "unknown"
	}
	err = Sound("somebody", err)
	reason := strings.ToLower(string(apierrors.ReasonForError(err)))
	if reason == "" || strings.HasPrefix(strings.ToLower(err.Error()), reason) {
		return err.Error()
	}
	return reason + ": " + err.Error()
}

// Refused reports whether trying again rarely helps, because somebody has to
// act first: missing rights, credentials, or a resource that is not served.
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

// NotServed reports whether it failed because the server does not serve the kind, such
// as that of a custom resource definition that is not installed.
func (f *Failure) NotServed() bool {
	return meta.IsNoMatchError(f.Err) || apierrors.IsNotFound(f.Err)
}

// Phase is the stage at which something failed.
type Phase string

// The phases, in the order in which a change passes them.
const (
	PhaseOptions   Phase = "options"    // contradicting or impossible options
	PhaseResolve   Phase = "resolve"    // finding out where a kind is served
	PhaseList      Phase = "list"       // reading a list
	PhaseWatchOpen Phase = "watch open" // asking for a watch
	PhaseWatch     Phase = "watch"      // reading a watch
	PhaseDecode    Phase = "decode"     // making an object of bytes
	PhaseTransform Phase = "transform"  // calling a transform
	PhaseIndex     Phase = "index"      // calling an index function
	PhaseHandler   Phase = "handler"    // calling a handler
	PhaseCache     Phase = "cache"      // keeping cached objects as they are
	PhaseSnapshot  Phase = "snapshot"   // writing what is cached into a file
	PhaseHook      Phase = "hook"       // calling OnError, OnState or OnSync
)

// Verdict is what an error handler decides.
type Verdict uint8

const (
	// Retry goes on after a back-off.
	Retry Verdict = iota
	// Stop ends Run with the failure as its error.
	Stop
)

// String names the verdict as in its documentation.
func (v Verdict) String() string {
	switch v {
	case Retry:
		return "Retry"
	case Stop:
		return "Stop"
	}
	return "Unknown"
}
