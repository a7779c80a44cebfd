package source

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace-dev/millrace/object"
)

// ErrNotNamespaced: a namespace was asked of a kind that has none.
var ErrNotNamespaced = errors.New("not namespaced")

// ResolveError says that a request was not sent because it could not be told
// where the kind is served: the Go type is not in the scheme, discovery failed,
// or the server does not serve the kind.
type ResolveError struct {
	Kind object.GVK // empty where the Go type has none
	Err  error
}

// Error names the kind and the reason.
func (e *ResolveError) Error() string {
	if e.Kind.Empty() {
		return fmt.Sprintf("find the resource: %v", e.Err)
	}
	return fmt.Sprintf("find the resource of %s %s: %v", e.Kind.GroupVersion(), e.Kind.Kind, e.Err)
}

// Unwrap returns Err.
func (e *ResolveError) Unwrap() error { return e.Err }

// TypeError: a source yields an object of another Go type than its informer has.
type TypeError struct {
	Have, Want reflect.Type // nil for an object that is nil
}

// Error names both types.
func (e *TypeError) Error() string {
	return fmt.Sprintf("the source yields a %v, want a %v: give the informer the type of its source", e.Have, e.Want)
}

// MaxRetryAfter is the longest wait that RetryAfter reports. A proxy's page may ask
// for a day, which no client should sleep through.
const MaxRetryAfter = time.Minute

// RetryAfter returns how long the server asked to wait before the call that
// failed with err is made again, in whole seconds, and MaxRetryAfter at most. It
// reports false where the server did not ask, or asked for none. The server may
// have said it as seconds, as a date, or in the body.
func RetryAfter(err error) (time.Duration, bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return 0, false
	}
	details := status.Status().Details
	if details == nil || details.RetryAfterSeconds <= 0 {
		return 0, false
	}
	return min(time.Duration(details.RetryAfterSeconds)*time.Second, MaxRetryAfter), true
}
