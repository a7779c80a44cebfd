package reflector

import (
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Sentinel errors for the list and watch phases.
var (
	// ErrNoAnswer means that the server did not respond to a request in time, or that a prerequisite, such as
	// credentials or discovery, was not available in time.
	ErrNoAnswer = errors.New("no answer in time")
	// ErrStalled means that the server sent no data for too long.
	ErrStalled = errors.New("the server stopped sending")
	// ErrDeaf means that a caller knows about a change that the watch has not delivered (Reconnect).
	ErrDeaf = errors.New("the watch has not delivered a known change")
	// ErrNoEnd means that a streaming list never sent the bookmark that ends it.
	ErrNoEnd = errors.New("the streaming list did not end in time; falling back to a list")
	// ErrLateEnd means that a streaming list ended just as it was abandoned. Its objects are in the
	// cache, but its watch is closed.
	ErrLateEnd = errors.New("the streaming list ended just as it was abandoned; a new watch follows")
	// ErrCutShort means that a streaming list was closed normally before the bookmark that ends it, for
	// example by a load balancer that limits connections to a minute.
	ErrCutShort = errors.New("the streaming list was closed before its end; falling back to a list this time")
	// ErrShortWatch means that the server closed a watch within a second without delivering a new
	// change, or for the third time in a row.
	ErrShortWatch = errors.New("the server closed the watch within a second")
	// ErrWentBack means that the server's resource version is lower than one it sent before, for example
	// after a restore from a backup.
	ErrWentBack = errors.New("the server's history went back, perhaps after a restore from a backup; a list follows")
	// ErrNoRV means that the server sent a list or an object without a resource version, or a list with
	// version "0", which a watch cannot start from.
	ErrNoRV = errors.New("no resource version")
	// ErrNoObject means that a list item or watch event is nil.
	ErrNoObject = errors.New("the source yielded a nil object")
)

// noRV reports whether a list has no version that a watch can start from. Version "0" is not usable, because
// a watch from "0" may start at any version and would miss deletions.
func noRV(rv string) bool { return rv == "" || rv == "0" }

// expired reports whether the server no longer has the changes since a resource version, or has not reached
// that version yet. In both cases the reflector must relist.
func expired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) ||
		apierrors.IsTimeout(err) && strings.Contains(err.Error(), "Too large resource version")
}
