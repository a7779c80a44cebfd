package reflector

import (
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Sentinels of the list and watch phases.
var (
	// ErrNoAnswer: the server did not answer a request, or what the request needs,
	// such as credentials and discovery, was not there in time.
	ErrNoAnswer = errors.New("no answer in time")
	// ErrStalled: the server sent nothing for too long and was given up.
	ErrStalled = errors.New("the server fell silent")
	// ErrDeaf: a caller knows of a change that a watch does not show (Reconnect).
	ErrDeaf = errors.New("the watch does not show what has happened")
	// ErrNoEnd: a streaming list went on without the bookmark that ends it.
	ErrNoEnd = errors.New("the streaming list did not end in time; a list takes its place")
	// ErrLateEnd: a streaming list ended at the moment at which it was given up. The cache
	// has it; its watch is cut off.
	ErrLateEnd = errors.New("the streaming list ended as it was given up; its changes are watched anew")
	// ErrCutShort: a streaming list was closed in good order before the bookmark that
	// ends it, as a load balancer does that gives every connection a minute.
	ErrCutShort = errors.New("the streaming list was closed before its end; a list takes its place this time")
	// ErrShortWatch: the server closed a watch within a second, without a change that was new, or for the
	// third time in a row.
	ErrShortWatch = errors.New("the server closed the watch within a second")
	// ErrWentBack: the server's resource version is lower than what it promised
	// before, as after its data was restored from a backup.
	ErrWentBack = errors.New("the server's history went back, as after a restore from a backup; a list follows")
	// ErrNoRV: the server sent a list or an object without a resource version, or a list of version "0", from
	// which no watch can continue.
	ErrNoRV = errors.New("no resource version")
	// ErrNoObject: a list has an item, or a watch an event, that is nil.
	ErrNoObject = errors.New("the source gave nil for an object")
)

// noRV reports whether a list has no version to watch from. A watch from "0" may begin at any version,
// so that the reflector would miss deletions.
func noRV(rv string) bool { return rv == "" || rv == "0" }

// expired reports whether the server no longer has the history of a resource
// version, or does not have that version yet; either way only a list helps.
func expired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) ||
		apierrors.IsTimeout(err) && strings.Contains(err.Error(), "Too large resource version")
}
