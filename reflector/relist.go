package reflector

import (
	"errors"

	"github.com/millrace-dev/millrace/failure"
)

// errLost ends a watch when the state is to be listed anew.
var errLost = errors.New("something that was queued is lost; a list follows")

// Relist has the state listed anew, because something that was queued is lost: f says what,
// and why. That counts as a failure, so that the list follows after a back-off, which grows if
// this goes on. A list that fails is tried again. Relist may be called from anywhere, under
// any lock, and whether the reflector runs or not.
func (r *Reflector) Relist(f *failure.Failure) {
	r.lost.Store(f)
	if end := r.endWatch.Load(); end != nil {
		(*end)(errLost)
	}
}

// watching lets others end the watch in progress by a function; nil when there is none.
func (r *Reflector) watching(end func(error)) {
	if end == nil {
		r.endWatch.Store(nil)
		return
	}
	r.endWatch.Store(&end)
	switch {
	case r.lost.Load() != nil:
		end(errLost)
	case r.turn() != r.share.listed:
		end(errGained)
	}
}

// listed notes that a list is queued which began when losing was what was known to be lost.
// What was lost since then may be in it as it was.
func (r *Reflector) listed() { r.lost.CompareAndSwap(r.losing, nil) }

// relist says where to go on instead, and why, if something is lost.
func (r *Reflector) relist(next State, fail *failure.Failure) (State, *failure.Failure) {
	lost := r.lost.Load()
	if lost == nil || next != Watching && next != Gaining {
		return next, fail
	}
	if fail == nil || errors.Is(fail.Err, errLost) {
		again := *lost // what is recorded is completed
		fail = &again
	}
	return Listing, fail
}
