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

// streamTries is how often a streaming list is tried before a list takes its
// place.
const streamTries = 2

// readTries is how often a change that cannot be read is asked for before a
// list looks whether the object is still like that; it looks again after twice,
// four times, eight times as many. The history does not change: a watch would
// meet the same bytes again until they expire, though the object may have been
// mended or deleted long since.
const readTries = 3

// firstState is the state in which a run begins, and in which most attempts are followed by another.
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

// nextState returns the state that follows an attempt. A failure that it returns means: there, but not
// at once.
func (r *Reflector) nextState(did State, fail *failure.Failure, broken bool) (next State, _ *failure.Failure) {
	if did == Watching && r.watched != r.resumeRV() {
		r.unreadable = 0
	}
	if fail == nil {
		return r.firstState(), nil
	}
	streaming := did == InitialWatch && !r.canWatch() // its set is not queued
	r.noteHistory(did, fail)
	switch {
	case did == Listing && !r.canWatch() && !broken:
		return Listing, fail
	case streaming && !errors.Is(fail.Err, errRolledBack):
		return r.afterStreamFailed(fail)
	case did == Watching && r.listPastUnreadable(fail):
		return Listing, fail
	}
	return r.firstState(), fail
}

// noteHistory notes whether a failure shows that the history has expired or went back.
func (r *Reflector) noteHistory(did State, fail *failure.Failure) {
	switch {
	case fail == nil:
	case errors.Is(fail.Err, errRolledBack):
		r.rollbacks++
		r.expired, r.newHistory = true, true
	case did == Listing && expired(fail.Err):
		r.unpaged = r.expired || r.opts.consistent() || r.opts.PageSize > 0
		r.expired = true
	case did == Listing, did == Resuming && !r.canWatch():
	case expiredWatch(fail):
		r.expired = true
	}
}

// afterStreamFailed says where to go on after a streaming list that failed before its end.
func (r *Reflector) afterStreamFailed(fail *failure.Failure) (State, *failure.Failure) {
	if refusesStream(fail) && r.opts.Initial == Auto {
		// Rights may be granted and kinds installed later.
		r.noStream = !apierrors.IsForbidden(fail.Err) && !apierrors.IsNotFound(fail.Err)
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

// refusesStream reports whether a streaming list failed to open for a reason that may
// be about streaming. A list has to find out. It is not asked for where nobody
// answered, or where the answer says that a list would fare no better.
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
		return code < http.StatusInternalServerError && code != http.StatusTooManyRequests && code != http.StatusUnauthorized
	}
	return true
}

// expiredWatch reports whether a watch failed since its resource version is of no use to the server. A
// transform may fail with the error of a call of its own, which says that of something else.
func expiredWatch(f *failure.Failure) bool {
	return f.Phase != failure.PhaseTransform && expired(f.Err)
}

// listPastUnreadable counts a watch that has failed, if it broke at a change that cannot be read, and reports
// whether a list is to look past that.
func (r *Reflector) listPastUnreadable(f *failure.Failure) bool {
	if !unreadable(f) {
		return false
	}
	r.unreadable++
	rounds := r.unreadable / readTries
	return r.unreadable%readTries == 0 && bits.OnesCount(uint(rounds)) == 1
}

// unreadable reports whether f is about a change that arrived whole and could
// still not be used.
func unreadable(f *failure.Failure) bool {
	return f.Phase == failure.PhaseTransform || f.Phase == failure.PhaseDecode && !errors.Is(f.Err, io.ErrUnexpectedEOF)
}

// errRelist ends a watch when the state is to be listed anew.
var errRelist = errors.New("a list follows")

// Relist has the state listed anew. If something that was queued is lost, f says what, and why:
// that counts as a failure, so that the list follows after a back-off, which grows if this goes
// on. A nil f announces a gain (see Ownership), which is no failure. A list that fails is tried
// again. Relist may be called from anywhere, under any lock, and whether the reflector runs or
// not.
func (r *Reflector) Relist(f *failure.Failure) {
	if f != nil {
		r.lost.Store(f)
	}
	if end := r.endWatch.Load(); end != nil {
		(*end)(errRelist)
	}
}

// setEndWatch sets the function that ends the watch in progress; nil if there is none.
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

// gained reports whether objects have come to be owned since the list that is queued began.
func (r *Reflector) gained() bool { return r.gains() != r.owned.listed }

// clearLost notes that a list is queued which began when lostAtStart was known to be lost. It does not
// make up for a later loss.
func (r *Reflector) clearLost() { r.lost.CompareAndSwap(r.lostAtStart, nil) }

// relistInstead replaces the next watch by a list if something is lost or was gained, and says why.
func (r *Reflector) relistInstead(ctx context.Context, next State, fail *failure.Failure) (State, *failure.Failure) {
	if fail != nil && errors.Is(fail.Err, errRelist) {
		fail = nil
	}
	lost := r.lost.Load()
	switch {
	case next != Watching || lost == nil && !r.gained():
		return next, fail
	case lost == nil:
		if r.relistLimiter.Wait(ctx) != nil { // at once if the deadline of ctx is earlier
			<-ctx.Done()
		}
	case fail == nil:
		again := *lost // what is recorded is completed
		fail = &again
	}
	return Listing, fail
}
