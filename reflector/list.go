package reflector

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// relistPage is the page size for consistent reads: large enough to need few round trips, and small
// enough for the server to read quickly from etcd.
const relistPage = 500

// list reads a list and queues it as one delta.
func (r *Reflector) list(ctx context.Context) *failure.Failure {
	r.beginList()
	began := time.Now()
	items, rv, fail := r.read(ctx)
	if fail != nil {
		return fail
	}
	return r.replace(items, rv, began, failure.PhaseList)
}

func (r *Reflector) read(ctx context.Context) (items []object.Head, rv string, fail *failure.Failure) {
	ctx, dog := startWatchdog(ctx, r.opts.Timing.StallTimeout, ErrStalled)
	defer dog.stop()

	dog.excuse(r.calls.busy)

	ctx, answered := r.trackRequest(ctx)
	defer answered()
	defer r.calls.stop()
	req := r.request(r.listOptions(), true)
	req.Skipped = func() { // the server is sending, although nothing is yielded
		if ctx.Err() == nil {
			source.ProgressOf(ctx).Moved()
			r.noteServing()
			dog.feed(r.opts.Timing.StallTimeout)
		}
	}
	if wanted := req.Wanted; wanted != nil {
		req.Wanted = func(o object.Head) bool {
			ok := wanted(o)
			if !ok {
				req.Skipped()
			}
			return ok
		}
	}
	list := r.source.List(ctx, req)
	for item, err := range list.Items {
		if err != nil {
			return nil, "", failed(ctx, failure.PhaseList, err)
		}
		if fail := r.checkObject(item); fail != nil {
			return nil, "", fail
		}
		if len(items) == 0 {
			r.noteServing()
		}
		source.ProgressOf(ctx).Moved()
		dog.feed(r.opts.Timing.StallTimeout)
		items = append(items, item)
	}
	switch {
	case ctx.Err() != nil:
		return nil, "", failed(ctx, failure.PhaseList, ctx.Err())
	case list.Meta == nil || noRV(list.Meta.ResourceVersion):
		return nil, "", &failure.Failure{Phase: failure.PhaseList, Err: ErrNoRV}
	}
	return items, list.Meta.ResourceVersion, nil
}

// checkObject returns a failure if the source yielded an unusable object. A source's objects
// usually have the same Go type, so the last type is cached.
func (r *Reflector) checkObject(o object.Head) *failure.Failure {
	if source.IsNil(o) {
		return &failure.Failure{Phase: failure.PhaseDecode, Err: ErrNoObject}
	}
	have, want := reflect.TypeOf(o), r.opts.Type
	if wire.PackerOf(r.opts.Packer) != nil {
		packed, ok := o.(*wire.Packed)
		if !ok {
			return &failure.Failure{Phase: failure.PhaseDecode, Key: object.KeyOf(o), Err: &source.TypeError{Have: have, Want: reflect.TypeFor[*wire.Packed]()}}
		}
		have = packed.Type()
	}
	if want != nil && have != r.lastType && !have.AssignableTo(want) {
		return &failure.Failure{Phase: failure.PhaseDecode, Key: object.KeyOf(o), Err: &source.TypeError{Have: have, Want: want}}
	}
	r.lastType = have
	return nil
}

// listOptions chooses the list's consistency. The first list may come from the server's cache (RV "0").
// Later ones must not, because that cache may be older than the reflector's state.
func (r *Reflector) listOptions() metav1.ListOptions {
	opts := r.opts.selectors()
	switch {
	case r.unpaged:
	case r.opts.PageSize > 0:
		opts.Limit = r.opts.PageSize
	case r.expired, r.rv != "", r.opts.consistent():
		opts.Limit = relistPage
	default:
		opts.ResourceVersion = "0"
	}
	return opts
}

// failed converts an error to a failure in the given phase. If a watchdog canceled the request, the
// error starts with the watchdog's cause, which is more informative than the connection error.
func failed(ctx context.Context, phase failure.Phase, err error) *failure.Failure {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w (%w)", cause, err)
	}
	var malformed *wire.Error
	var unresolved *source.ResolveError
	var untransformed *TransformError
	switch {
	case errors.As(err, &untransformed):
		return &failure.Failure{Phase: failure.PhaseTransform, Key: untransformed.Key, Handler: untransformed.Transform, Err: untransformed.Err}
	case errors.As(err, &malformed):
		return &failure.Failure{Phase: failure.PhaseDecode, Key: malformed.Key, Err: err}
	case errors.As(err, &unresolved):
		return &failure.Failure{Phase: failure.PhaseResolve, Err: err}
	}
	return &failure.Failure{Phase: phase, Err: err}
}

// beginList is called before listing, so that failed lists are counted too. While a list from a new
// history is queued, the cache still contains the old history, so the next list must not reuse
// cached objects either.
func (r *Reflector) beginList() {
	r.newHistory = r.newHistory || r.queue.NewHistoryQueued("")
	r.failing.noteList(time.Now())
	r.update(func(s *Status) {
		s.Lists++
		if s.RV != "" && r.owned.began == r.owned.listed {
			s.Relists++
		}
	})
}

// replace queues a list that is complete up to rv. If rv shows that the history was rolled back, a list
// that may contain reused objects is rejected and must be read again.
func (r *Reflector) replace(items []object.Head, rv string, began time.Time, phase failure.Phase) *failure.Failure {
	if !r.newHistory && r.rolledBack(rv) {
		return &failure.Failure{Phase: phase, Err: fmt.Errorf("a list at version %s after %s: %w", rv, r.rv, errRolledBack)}
	}
	now := time.Now()
	if phase == failure.PhaseList {
		r.noteHeard(began) // the first page's version applies to all pages
	} else {
		r.noteHeard(now)
	}
	resumed := r.resuming != nil && !r.resuming.abandoned
	r.update(func(s *Status) { s.Resumed = resumed }) // before the consumer sees the list
	r.queue.Add(deltafifo.Delta{Type: deltafifo.Replaced, Items: items, NewHistory: r.newHistory, RV: rv, Part: r.deltaPart(), Received: began, Decoded: now, Queued: now})
	r.resuming, r.owned.listed = nil, r.owned.began
	if !resumed {
		r.clearLost()
	}
	r.rv, r.last, r.newHistory, r.expired, r.unpaged, r.streamFailures, r.unreadable = rv, rv, false, false, false, 0, 0
	r.news++
	r.silent = 0
	r.update(func(s *Status) { s.RV = rv })
	r.resetAttempts()
	return nil
}
