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

// silentWatch is how long a watch and its predecessors may last without a change or bookmark before they
// look suspicious. API servers send a bookmark about every minute, and at the end of a watch, but not to
// a watch whose resource version they have not reached. If a caller reports a watch as deaf, it is
// suspicious immediately.
const silentWatch = 2 * time.Minute

// checkRollback returns the failure of a watch that ended, or nil. If the watch was silent or deaf,
// it first asks the server whether its history went back. If the server does not answer, the
// question stays open: the next watch will fail for the same reason. The next watch must still
// respect a Retry-After of that answer.
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

// errRolledBack is the ErrWentBack that the reflector itself returns; no error of a source or transform
// wraps it.
var errRolledBack = fmt.Errorf("%w", ErrWentBack)

// maxRollbacks is how often a server with unordered versions may seem to go back. Restores are rare, so
// beyond this number the versions are considered merely unordered.
const maxRollbacks = 3

// rolledBack reports whether a version from the server shows that its history went back. A list
// must then follow, and must not reuse known objects: the restored history may assign the same
// versions again.
func (r *Reflector) rolledBack(rv string) bool {
	return older(rv, r.rv) && !(r.unordered.Load() && r.rollbacks >= maxRollbacks)
}

// older reports whether a is known to be an older resource version than b.
func older(a, b string) bool {
	order, err := object.CompareRV(a, b)
	return err == nil && order < 0
}

// Settle reports the outcome of a delta that was queued as Late: whether the consumer took it, because
// it was news, or dropped it. The first one taken shows that the server's resource versions are not
// ordered across objects. It may be called from any goroutine, but not under a lock, because it writes
// to the log.
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
		r.opts.Logger.Warn("the server's resource versions are not ordered: a change was new although its version is lower than earlier ones. "+
			"The cache follows, but waiting for a resource version means little", "resource", r.Name())
	}
}

// isNewer reports whether a version is newer than all seen, or cannot be compared.
func (r *Reflector) isNewer(rv string) bool {
	order, err := object.CompareRV(rv, r.rv)
	return err != nil || order > 0
}

// resumeRV returns the resource version for the next watch. That is the highest one seen, because a
// repeated event must not move the watch back. If versions are not ordered, it is the version of
// the last event, because only the server knows their order.
func (r *Reflector) resumeRV() string {
	if r.unordered.Load() {
		return r.last
	}
	return r.rv
}
