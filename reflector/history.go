package reflector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
)

// muteWatch is how long a watch, and those before it, must have lasted without a change or
// a bookmark to look suspicious. API servers send a bookmark every minute or so, and at the
// end of a watch, but not to a watch whose resource version they have yet to reach. One that
// a caller knows to be deaf looks so at once.
const muteWatch = 2 * time.Minute

// unlessBack returns the failure of a watch that ended; nil for one that ended well. Where one was mute or
// deaf, it asks whether the history went back. Without an answer that is not known: whatever
// is wrong, the next watch meets it too. It must not come before the server wants it to.
func (r *Reflector) unlessBack(ctx context.Context, fail *failure.Failure) *failure.Failure {
	mute := r.mute >= muteWatch
	if probed, known := r.pace.recall.Probed(); known {
		mute = probed // a recording may play at another speed
	}
	mute = mute && fail == nil
	deaf := fail != nil && errors.Is(fail.Err, ErrDeaf)
	if !mute && !deaf || !r.current() {
		return fail
	}
	r.mute = 0
	r.enter(Connecting) // no watch is open
	rv, _, _, err := r.probe(ctx)
	if err == nil && r.wentBack(rv) {
		return &failure.Failure{Phase: failure.PhaseWatch, Err: errBack}
	}
	if _, asked := source.RetryAfter(err); asked {
		err = fmt.Errorf("ask whether the history went back: %w", err)
		if fail != nil {
			err = fmt.Errorf("%w; %w", fail.Err, err)
		}
		fail = failed(ctx, failure.PhaseWatch, err)
	}
	return fail
}

// errBack is the ErrWentBack of a reflector, which no error of a source or of a transform wraps.
var errBack = fmt.Errorf("%w", ErrWentBack)

// maxBacks is how often a server whose versions are not ordered may seem to go back. A
// restore is rare; after that, its versions are just not ordered.
const maxBacks = 3

// wentBack reports whether a version that the server promises shows that its history
// went back. A list must then follow, and take back no object that is known: what
// happens in the restored history may come to the same versions.
func (r *Reflector) wentBack(rv string) bool {
	return older(rv, r.rv) && !(r.unordered.Load() && r.backs >= maxBacks)
}

// older reports whether a is known to be an earlier resource version than b.
func older(a, b string) bool {
	order, err := object.CompareRV(a, b)
	return err == nil && order < 0
}
