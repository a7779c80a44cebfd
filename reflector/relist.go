package reflector

import (
	"context"
	"errors"
	"io"
	"math/bits"
	"net"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/millrace-dev/millrace/failure"
)

// streamTries is the number of attempts at a streaming list before falling back to a plain list.
const streamTries = 2

// readTries is how many times an unreadable change is requested before a list reads the object's current
// state; further lists follow after two, four and eight times as many attempts. Watching alone would not
// help: history does not change, so a watch would receive the same bytes until they expire, even if the
// object was fixed or deleted long ago.
const readTries = 3

// firstState returns the first state of a run. It is also the state after most attempts.
func (r *Reflector) firstState() State {
	switch {
	case r.canWatch():
		return Watching
	case r.rv == "" && r.resuming != nil && !r.resuming.abandoned:
		return Resuming
	case r.opts.Initial == List || r.noStream || r.opts.PageSize > 0:
		return Listing
	}
	return InitialWatch
}

// nextState returns the state after an attempt. If it also returns a failure, back off first.
func (r *Reflector) nextState(did State, fail *failure.Failure, broken bool) (next State, _ *failure.Failure) {
	if (did == InitialWatch || did == Resuming) && r.canWatch() { // the collected list is queued, so the failure is the watch's
		did, r.watched = Watching, r.resumeRV()
	}
	if did == Watching && r.watched != r.resumeRV() {
		r.unreadable = 0
	}
	if fail == nil {
		return r.firstState(), nil
	}
	r.noteHistory(did, fail)
	switch {
	case did == Listing && !r.canWatch() && !broken:
		return Listing, fail
	case did == InitialWatch && !errors.Is(fail.Err, errRolledBack):
		return r.afterStreamFailed(fail)
	case did == Watching && r.listPastUnreadable(fail):
		return Listing, fail
	}
	return r.firstState(), fail
}

// noteHistory records whether a failure shows that the history expired or was rolled back.
func (r *Reflector) noteHistory(did State, fail *failure.Failure) {
	switch {
	case fail == nil:
	case errors.Is(fail.Err, errRolledBack):
		r.rollbacks++
		r.expired, r.newHistory = true, true
		if r.opts.OnRollback != nil {
			r.callHook("OnRollback", r.opts.OnRollback)
		}
	case did == Listing && expired(fail.Err):
		r.unpaged = r.expired || r.opts.consistent() || r.opts.PageSize > 0
		r.expired = true
	case did == Listing, did == Resuming && !r.canWatch():
	case expiredWatch(fail):
		r.expired = true
	}
}

// afterStreamFailed chooses the state after a streaming list that failed before it was complete.
func (r *Reflector) afterStreamFailed(fail *failure.Failure) (State, *failure.Failure) {
	if refusesStream(fail) && r.opts.Initial == Auto {
		// Permissions may be granted and kinds installed later, and other errors may be temporary.
		var status apierrors.APIStatus
		r.noStream = errors.As(fail.Err, &status) && !apierrors.IsForbidden(fail.Err) && !apierrors.IsNotFound(fail.Err)
		r.opts.Logger.Debug("streaming list refused, listing", "resource", r.Name(), "err", failure.Reason(fail.Err))
		return Listing, nil
	}
	r.streamFailures++
	late := errors.Is(fail.Err, ErrNoEnd)
	r.noStream = r.noStream || late
	switch {
	case r.opts.Initial == Auto && r.streamFailures >= streamTries, late, expired(fail.Err),
		errors.Is(fail.Err, ErrCutShort), errors.Is(fail.Err, ErrNoAnswer):
		return Listing, fail
	}
	return InitialWatch, fail
}

// refusesStream reports whether a streaming list failed to open for a reason that may be specific to
// streaming, so that a plain list is worth trying. It returns false if the server did not respond, or if its
// response would apply to a list too.
func refusesStream(f *failure.Failure) bool {
	if _, panics := errors.AsType[*failure.PanicError](f.Err); panics || f.Phase != failure.PhaseWatchOpen {
		return false
	}
	var network net.Error
	var status apierrors.APIStatus
	switch {
	case errors.As(f.Err, &network), errors.Is(f.Err, io.EOF), errors.Is(f.Err, io.ErrUnexpectedEOF), errors.Is(f.Err, ErrNoAnswer):
		return false
	case errors.As(f.Err, &status):
		code := status.Status().Code
		return code < http.StatusInternalServerError && code != http.StatusTooManyRequests && code != http.StatusUnauthorized && code != http.StatusGone
	}
	return true
}

// expiredWatch reports whether a watch failed because the server cannot serve its resource version. It
// ignores errors from transforms, which may come from unrelated requests that a transform made.
func expiredWatch(f *failure.Failure) bool {
	return f.Phase != failure.PhaseTransform && expired(f.Err)
}

// listPastUnreadable counts f if it concerns an unreadable change, and reports whether it is time for a list
// to skip that change.
func (r *Reflector) listPastUnreadable(f *failure.Failure) bool {
	if !unreadable(f) {
		return false
	}
	r.unreadable++
	rounds := r.unreadable / readTries
	return r.unreadable%readTries == 0 && bits.OnesCount(uint(rounds)) == 1
}

// unreadable reports whether f concerns a change that arrived intact but could not be used.
func unreadable(f *failure.Failure) bool {
	return f.Phase == failure.PhaseTransform || f.Phase == failure.PhaseDecode && !errors.Is(f.Err, io.ErrUnexpectedEOF)
}

// errRelist is the cancellation cause of a watch that was closed because a list is needed.
var errRelist = errors.New("a list follows")

// Relist makes the reflector list again. If queued data was lost, f describes the loss and its cause. The
// loss is treated as a failure, so the list waits for a back-off, which grows with repeated losses. A nil f
// announces a gain (see Ownership), which is not a failure. A failed list is retried. Relist is safe for
// concurrent use, and may be called with locks held and whether or not the reflector is running.
func (r *Reflector) Relist(f *failure.Failure) {
	if f != nil {
		r.lost.Store(f)
	}
	if end := r.endWatch.Load(); end != nil {
		(*end)(errRelist)
	}
}

// setEndWatch sets the function that closes the current watch; nil if there is none.
func (r *Reflector) setEndWatch(end func(error)) {
	if end == nil {
		r.endWatch.Store(nil)
		return
	}
	r.endWatch.Store(&end)
	if r.lost.Load() != nil || r.gained() {
		end(errRelist)
	}
}

// gained reports whether objects were gained after the queued list started.
func (r *Reflector) gained() bool { return r.gains() != r.owned.listed }

// clearLost records that a queued list has recovered the data whose loss lostAtStart describes, but not any
// data lost later.
func (r *Reflector) clearLost() { r.lost.CompareAndSwap(r.lostAtStart, nil) }

// relistInstead replaces the next watch with a list if data was lost or objects were gained, and returns the
// failure to report, if any.
func (r *Reflector) relistInstead(ctx context.Context, next State, fail *failure.Failure) (State, *failure.Failure) {
	if fail != nil && errors.Is(fail.Err, errRelist) {
		fail = nil
	}
	lost := r.lost.Load()
	switch {
	case next != Watching || lost == nil && !r.gained():
		return next, fail
	case lost == nil:
		if r.relistLimiter.Wait(ctx) != nil { // fails immediately if ctx's deadline is earlier
			<-ctx.Done()
		}
	case fail == nil:
		again := *lost // a copy, because record modifies it
		fail = &again
	}
	return Listing, fail
}
