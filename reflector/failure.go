package reflector

import (
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/object"
)

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
)

// Sentinels of the list and watch phases.
var (
	// ErrStalled: the server sent nothing for too long and was given up.
	ErrStalled = errors.New("the server fell silent")
	// ErrNoEnd: a streaming list went on without the bookmark that ends it.
	ErrNoEnd = errors.New("the streaming list did not end in time; a list takes its place")
	// ErrShortWatch: the server closed a watch at once, without a change or a
	// bookmark that was new.
	ErrShortWatch = errors.New("the server closed the watch at once without anything new")
	// ErrNoRV: the server sent a list or an object without a resource version.
	ErrNoRV = errors.New("no resource version")
)

// Failure is what went wrong, where, and for how long.
type Failure struct {
	Resource string
	Phase    Phase
	Key      object.Key // the object concerned; zero if it is not about one
	Handler  string     // in PhaseHandler, name and file:line; in PhaseCache, of whose call changed the object, if that is known
	Err      error

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

// PanicError is a panic in a function of the user's. Its text leaves out the
// stack.
type PanicError struct {
	In    string // what panicked, such as "handler" or "transform"
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("%s panicked: %v", e.In, e.Value) }

// Reason writes err with the API server's reason in front where there is one:
// "forbidden: pods is forbidden: User ...".
func Reason(err error) string {
	if err == nil {
		return "unknown"
	}
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

// Verdict is what an error handler decides.
type Verdict uint8

const (
	// Retry goes on after a back-off.
	Retry Verdict = iota
	// Stop ends Run with the failure as its error.
	Stop
)

// expired reports whether the server no longer has the history of a resource
// version, or does not have that version yet; either way only a list helps.
func expired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) ||
		apierrors.IsTimeout(err) && strings.Contains(err.Error(), "Too large resource version")
}
