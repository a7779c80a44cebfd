package reflector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
)

// silentWatch is how long a watch and its predecessors may go without a change or bookmark before they look
// suspicious. API servers send a bookmark about every minute, and at the end of a watch, but not to a watch
// whose resource version they have not reached. A watch that a caller reports as deaf is suspicious
// immediately.
const silentWatch = 2 * time.Minute

// checkRollback returns the failure for a watch that ended, or nil. If the watch was silent or deaf, it first
// asks the server whether its history was rolled back. If the server does not answer that, the watch has failed:
// it proves nothing, because a server also opens a silent watch from a version that its history has lost.
func (r *Reflector) checkRollback(ctx context.Context, fail *failure.Failure) *failure.Failure {
	silent := r.silent >= silentWatch
	if probed, known := r.pace.recall.Probed(); known {
		silent = probed // a recording may be replayed at a different speed
	}
	silent = silent && fail == nil
	deaf := fail != nil && errors.Is(fail.Err, ErrDeaf)
	if !silent && !deaf || !r.canWatch() {
		return fail
	}
	r.enter(Connecting) // no watch is open
	rv, _, _, err := r.probe(ctx, true)
	if err == nil { // otherwise, the next watch proves nothing either, however short it is
		r.silent = 0
	}
	switch {
	case err == nil && r.rolledBack(rv):
		return &failure.Failure{Phase: failure.PhaseWatch, Err: errRolledBack}
	case err != nil:
		err = fmt.Errorf("check whether the history went back: %w", err)
		if fail != nil {
			err = fmt.Errorf("%w; %w", fail.Err, err)
		}
		fail = failed(ctx, failure.PhaseWatch, err)
	}
	return fail
}

// errRolledBack is the ErrWentBack returned by the reflector itself; errors from a source or transform never
// wrap it.
var errRolledBack = fmt.Errorf("%w", ErrWentBack)

// maxRollbacks is the number of apparent rollbacks to act on if the server's versions are unordered. Restores
// are rare, so any further ones are attributed to the lack of ordering.
const maxRollbacks = 3

// rolledBack reports whether a version from the server shows that its history was rolled back. The reflector
// must then list, without reusing known objects, because the restored history may assign the same versions
// again.
func (r *Reflector) rolledBack(rv string) bool {
	return older(rv, r.rv) && !(r.unordered.Load() && r.rollbacks >= maxRollbacks)
}

// older reports whether a is known to be an older resource version than b.
func older(a, b string) bool {
	order, err := object.CompareRV(a, b)
	return err == nil && order < 0
}

// Settle reports the outcome of a delta that was queued as Late: whether the consumer took it, because it was
// new, or dropped it. The first delta taken shows that the server's resource versions are not ordered across
// objects. Settle is safe for concurrent use, but must not be called with locks held, because it writes to
// the log.
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
			"The cache is still updated, but waiting for a resource version is unreliable", "resource", r.Name())
	}
}

// isNewer reports whether a version is newer than all versions seen so far, or cannot be compared.
func (r *Reflector) isNewer(rv string) bool {
	order, err := object.CompareRV(rv, r.rv)
	return err != nil || order > 0
}

// resumeRV returns the resource version to start the next watch from. That is the highest version seen,
// because a repeated event must not move the watch back. If versions are not ordered, it is the version of
// the last event, because only the server knows their order.
func (r *Reflector) resumeRV() string {
	if r.unordered.Load() {
		return r.last
	}
	return r.rv
}
