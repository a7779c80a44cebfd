package reflector

import (
	"context"
	"errors"

	"github.com/millrace-dev/millrace/failure"
)

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
		_ = r.relistLimiter.Wait(ctx) // its error is that of ctx, which ends the run
	case fail == nil:
		again := *lost // what is recorded is completed
		fail = &again
	}
	return Listing, fail
}
