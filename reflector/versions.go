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

// silentWatch is how long a watch, and those before it, must have lasted without a change or
// a bookmark to look suspicious. API servers send a bookmark every minute or so, and at the
// end of a watch, but not to a watch whose resource version they have yet to reach. One that
// a caller knows to be deaf looks so at once.
const silentWatch = 2 * time.Minute

// checkRollback returns the failure of a watch that ended; nil for one that ended well. Where one was silent or
// deaf, it asks whether the history went back. Without an answer that is not known: whatever
// is wrong, the next watch meets it too. It must not come before the server wants it to.
func (r *Reflector) checkRollback(ctx context.Context, fail *failure.Failure) *failure.Failure {
	silent := r.silent >= silentWatch
	if probed, known := r.pace.recall.Probed(); known {
		silent = probed // a recording may play at another speed
	}
	silent = silent && fail == nil
	deaf := fail != nil && errors.Is(fail.Err, ErrDeaf)
	if !silent && !deaf || !r.canWatch() {
		return fail
	}
	r.silent = 0
	r.enter(Connecting) // no watch is open
	rv, _, _, err := r.probe(ctx)
	if err == nil && r.rolledBack(rv) {
		return &failure.Failure{Phase: failure.PhaseWatch, Err: errRolledBack}
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

// errRolledBack is the ErrWentBack of a reflector, which no error of a source or of a transform wraps.
var errRolledBack = fmt.Errorf("%w", ErrWentBack)

// maxRollbacks is how often a server whose versions are not ordered may seem to go back. A
// restore is rare; after that, its versions are just not ordered.
const maxRollbacks = 3

// rolledBack reports whether a version that the server promises shows that its history
// went back. A list must then follow, and take back no object that is known: what
// happens in the restored history may come to the same versions.
func (r *Reflector) rolledBack(rv string) bool {
	return older(rv, r.rv) && !(r.unordered.Load() && r.rollbacks >= maxRollbacks)
}

// older reports whether a is known to be an earlier resource version than b.
func older(a, b string) bool {
	order, err := object.CompareRV(a, b)
	return err == nil && order < 0
}

// Settle tells what became of a delta that was queued as Late: the consumer took it,
// because it was news, or dropped it. The first that is taken shows that the server's
// resource versions do not grow over all objects. It may be called from anywhere, but
// not under a lock: it writes a log.
func (r *Reflector) Settle(taken bool) {
	first := taken && !r.unordered.Swap(true)
	r.update(func(s *Status) {
		if s.Unordered = s.Unordered || taken; taken {
			s.Events++
		} else {
			s.Duplicates++
		}
	})
	if first {
		r.opts.Logger.Warn("the server's resource versions are not ordered: a change came with a lower one than those before it, and was news. "+
			"The cache follows; to wait for a resource version means little here", "resource", r.Name())
	}
}

// isNewer reports whether a version is not known to be one that was seen.
func (r *Reflector) isNewer(rv string) bool {
	order, err := object.CompareRV(rv, r.rv)
	return err != nil || order > 0
}

// resumeRV is the resource version from which the next watch goes on: the highest, since a
// replayed event must not move the watch back, or that of the last event where versions
// are not ordered, since only the server knows what comes after which.
func (r *Reflector) resumeRV() string {
	if r.unordered.Load() {
		return r.last
	}
	return r.rv
}
