package reflector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/source"
	"github.com/millrace-dev/millrace/wire"
)

// SavedState is the state that a reflector for the same objects had in an earlier process. It is queued only
// after the server has confirmed or corrected it.
type SavedState struct {
	Items []object.Head // with unique keys; they are not modified
	RV    string        // Items includes every change up to this version

	// Confirm, if not nil, checks whether the items come from the current server. It returns nil if they do,
	// an error that wraps ErrForeign if they do not, and any other error if it cannot tell.
	Confirm func(context.Context) error

	// Refuse, if not nil, is called with the reason if the server shows that the state is wrong or too old.
	// The reflector then lists, as it does after two failed requests, when Refuse is not called. Refuse must
	// return quickly.
	Refuse func(why error)
}

// ErrForeign means that a saved state belongs to another server.
var ErrForeign = errors.New("the state belongs to another cluster")

// errNotCaughtUp means that no change or bookmark arrived in time to show that the watch had caught up.
var errNotCaughtUp = errors.New("no change or bookmark arrived in time to confirm that nothing is missing")

// errContradicted means that the server contradicts a saved state.
var errContradicted = errors.New("the server contradicts it")

const (
	// confirmWatch is the requested lifetime of the watch that confirms a saved state. The server sends a
	// bookmark two seconds before the watch ends.
	confirmWatch = 3 * time.Second

	// confirmTries is the number of failed requests after which a saved state is abandoned for a list.
	confirmTries = 2
)

// resumption is a saved state that is being confirmed.
type resumption struct {
	SavedState
	set       catchUpSet // Items plus the changes since then
	began     time.Time  // time of the first request; zero before
	failures  int
	abandoned bool                       // the state was abandoned for a list and serves only to recognize known objects
	byKey     map[object.Key]object.Head // Items by key; built when they serve as known objects
}

// countFailure counts a failure, and abandons the saved state after confirmTries.
func (e *resumption) countFailure() {
	e.failures++
	e.abandoned = e.abandoned || e.failures >= confirmTries
}

// Resume makes the next run start from a saved state, if the reflector has no state yet. A watch brings it up
// to date. If the server no longer has the changes since then, or contradicts the state, the reflector lists,
// and the source reuses unchanged objects. Resume must be called before Run.
func (r *Reflector) Resume(e SavedState) {
	if r.rv == "" {
		r.resuming = &resumption{SavedState: e}
	}
}

// resume brings a saved state up to the server's version at startup:
//
//  1. A consistent read of a single item returns that version. If it is the saved version, nothing has
//     changed since.
//  2. Confirm checks that the state came from this server.
//  3. A watch from the saved version delivers the changes since then. The state is complete when a
//     change or bookmark reaches that version.
func (r *Reflector) resume(ctx context.Context) *failure.Failure {
	e := r.resuming
	began := time.Now()
	if e.began.IsZero() {
		e.began = began
	}
	if e.set.until == "" {
		omits := source.Describe(r.source).Omits
		rv, first, count, err := r.probe(ctx, omits)
		if err != nil {
			if serverFailed(err) { // a list from the server's cache may succeed
				if e.countFailure(); e.abandoned {
					r.resuming = nil // it was not checked, so its objects must not be reused
				}
			}
			return failed(ctx, failure.PhaseList, err)
		}
		if omits { // they concern all of the server's objects
			first, count = nil, -1
		}
		if err := e.check(rv, first, count, r.sameContent); err != nil {
			return r.abandonResume(err)
		}
		if e.Confirm != nil {
			if err := r.confirm(ctx, e); errors.Is(err, ErrForeign) {
				return r.abandonResume(err)
			} else if err != nil {
				e.countFailure()
				return failed(ctx, failure.PhaseList, err)
			}
		}
		if rv == e.RV {
			return r.replace(e.Items, rv, began, failure.PhaseList)
		}
		e.set = catchUpSet{streamedSet: streamedSet{items: e.Items, readOnly: true}, until: rv, rv: e.RV, count: count}
	}
	opts := r.opts.selectors()
	opts.ResourceVersion = e.set.rv
	fail := r.runWatch(ctx, opts, confirmWatch, &e.set)
	if r.canWatch() {
		return r.checkRollback(ctx, fail)
	}
	late := time.Since(e.began) >= r.opts.Timing.StreamIdle
	switch {
	case expired(fail.Err):
		return r.abandonResume(fail.Err)
	case errors.Is(fail.Err, ErrNoEnd), late && errors.Is(fail.Err, ErrCutShort):
		return r.abandonResume(errNotCaughtUp)
	case errors.Is(fail.Err, errContradicted), errors.Is(fail.Err, ErrWentBack):
		return r.abandonResume(fail.Err)
	case errors.Is(fail.Err, ErrCutShort) && time.Since(began) >= shortWatch:
		return nil
	}
	e.countFailure()
	return fail
}

// serverFailed reports whether an API server responded that it could not handle a request. A 502 or 503 usually comes
// from a gateway that did not reach the server.
func serverFailed(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code == http.StatusInternalServerError || code == http.StatusGatewayTimeout
}

// abandonResume gives up on a saved state in favor of an immediate list. The state still serves to recognize
// known objects, unless the meaning of the server's versions has changed.
func (r *Reflector) abandonResume(why error) *failure.Failure {
	level, refuse := slog.LevelWarn, r.resuming.Refuse
	if r.resuming.abandoned = expired(why) || errors.Is(why, errNotCaughtUp); r.resuming.abandoned {
		level = slog.LevelInfo
	} else {
		r.resuming = nil
	}
	r.opts.Logger.Log(context.Background(), level, "saved state rejected, listing", "resource", r.Name(), "cause", failure.Reason(why))
	if refuse != nil {
		refuse(why)
	}
	return nil
}

// confirm calls the saved state's Confirm, which makes requests of its own.
func (r *Reflector) confirm(ctx context.Context, e *resumption) error {
	ctx, answered := r.trackRequest(ctx)
	defer answered()
	return e.Confirm(ctx)
}

// check compares a saved state with the server's version, first item (nil if none) and item count (negative
// if unknown). The item's content may differ at the same version, if the server has other defaults or another
// conversion than the one that the state was read from.
func (e *resumption) check(rv string, first object.Head, count int, sameContent func(a, b object.Head) bool) error {
	order, err := object.CompareRV(e.RV, rv)
	switch {
	case err != nil:
		return fmt.Errorf("its resource version %.40q cannot be compared with the server's: %w", e.RV, err)
	case order > 0:
		return fmt.Errorf("the server is at version %s, the saved state at %s: %w", rv, e.RV, ErrWentBack)
	case order == 0 && count >= 0 && count != len(e.Items):
		return fmt.Errorf("%w: it has %d objects, the server has %d at that version", errContradicted, len(e.Items), count)
	case source.IsNil(first):
		return nil
	}
	if order, err := object.CompareRV(first.GetResourceVersion(), e.RV); err != nil || order > 0 {
		return err // the item is newer, so the watch will deliver it
	}
	for _, item := range e.Items {
		if item.GetName() == first.GetName() && item.GetNamespace() == first.GetNamespace() && sameVersion(item, first) {
			if !sameContent(item, first) {
				return fmt.Errorf("%w: %s has other content at the same version", errContradicted, object.FormatKey(object.KeyOf(first)))
			}
			return nil
		}
	}
	return errContradicted
}

// sameContent reports whether two objects, both packed or both whole, have the same content. It returns true if that
// cannot be determined.
func (r *Reflector) sameContent(a, b object.Head) (same bool) {
	if packer := wire.PackerOf(r.opts.Packer); packer != nil {
		one, isPacked := a.(*wire.Packed)
		other, areBoth := b.(*wire.Packed)
		return !isPacked || !areBoth || packer.Equal(one, other)
	}
	if reflect.DeepEqual(a, b) {
		return true
	}
	defer func() { // the comparison panics on unexported fields
		if recover() != nil {
			same = true
		}
	}()
	return equality.Semantic.DeepEqual(a, b)
}

// catchUpSet combines a saved state with the changes since then, up to a given version.
type catchUpSet struct {
	streamedSet
	until string // the set is complete at this version
	rv    string // version reached so far
	count int    // number of items on the server at version until; negative if unknown
}

// add implements setCollector. An event at or below the set's version is a repeat, and must agree with the
// set.
func (s *catchUpSet) add(e wire.Event[object.Head]) (whole string, fail *failure.Failure) {
	v := e.Passed
	if v == nil {
		of := object.VersionOf(e.Object)
		v = &of
	}
	order, err := object.CompareRV(v.RV, s.rv)
	contradicted := &failure.Failure{Phase: failure.PhaseWatch, Key: v.Key, Err: errContradicted}
	switch {
	case v.RV == "":
		return "", &failure.Failure{Phase: failure.PhaseDecode, Key: v.Key, Err: ErrNoRV}
	case err != nil:
		return "", &failure.Failure{Phase: failure.PhaseWatch, Err: fmt.Errorf("%w: %w", errContradicted, err)}
	case e.Type == watch.Bookmark && order < 0:
		return "", &failure.Failure{Phase: failure.PhaseWatch, Err: fmt.Errorf("a bookmark at version %s after %s: %w", v.RV, s.rv, ErrWentBack)}
	case e.Type == watch.Bookmark:
	case e.Type != watch.Added && e.Type != watch.Modified && e.Type != watch.Deleted:
		return "", unknownEvent(e.Type)
	case order <= 0 && !s.agrees(e):
		return "", contradicted
	case order <= 0:
		return "", nil
	case v.RV != s.until && object.ReachedRV(v.RV, s.until) && s.countDiffers():
		return "", contradicted
	default:
		s.index()
		if _, fail := s.streamedSet.add(e); fail != nil {
			return "", fail
		}
	}
	if s.rv = v.RV; !object.ReachedRV(s.rv, s.until) {
		return "", nil
	}
	if (s.rv == s.until || e.Type == watch.Bookmark) && s.countDiffers() {
		return "", contradicted
	}
	return s.rv, nil
}

// countDiffers reports whether the set, which is complete up to until, differs in size from the server's
// count.
func (s *catchUpSet) countDiffers() bool { return s.count >= 0 && s.len() != s.count }

// agrees reports whether an event agrees with the set.
func (s *catchUpSet) agrees(e wire.Event[object.Head]) bool {
	s.index()
	if e.Passed != nil {
		_, ok := s.at[e.Passed.Key]
		return !ok
	}
	at, ok := s.at[object.KeyOf(e.Object)]
	if e.Type == watch.Deleted {
		return !ok || s.items[at].GetUID() != e.Object.GetUID()
	}
	return ok && sameVersion(s.items[at], e.Object)
}

func sameVersion(a, b object.Head) bool {
	return a.GetUID() == b.GetUID() && a.GetResourceVersion() == b.GetResourceVersion()
}

// known returns the saved object under key. It is safe for concurrent use once indexKnown has been
// called.
func (e *resumption) known(key object.Key) (object.Head, bool) {
	have, ok := e.byKey[key]
	return have, ok
}

// indexKnown builds the index used by known, and returns known.
func (e *resumption) indexKnown() wire.Cached {
	if e.byKey == nil {
		e.byKey = make(map[object.Key]object.Head, len(e.Items))
		for _, item := range e.Items {
			e.byKey[object.KeyOf(item)] = item
		}
	}
	return e.known
}

// probe does a consistent read of a single item. It returns the server's version, first item (nil if none)
// and item count (negative if the server does not report it).
func (r *Reflector) probe(ctx context.Context, versionOnly bool) (rv string, first object.Head, count int, err error) {
	ctx, dog := startWatchdog(ctx, r.opts.Timing.StallTimeout, ErrStalled)
	defer dog.stop()
	dog.excuse(r.calls.busy)
	ctx, answered := r.trackRequest(ctx)
	defer answered()
	defer r.calls.stop()
	opts := r.opts.selectors()
	opts.Limit = 1
	fed := func() { dog.feed(r.opts.Timing.StallTimeout) } // the server does not support paging
	list := r.source.List(ctx, source.Request{
		ListOptions: opts, Namespace: r.opts.Namespace, Known: r.opts.Known, Packer: r.opts.Packer, VersionOnly: versionOnly, Skipped: fed,
	})
	for item, err := range list.Items {
		if err != nil {
			if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
				err = fmt.Errorf("%w (%w)", cause, err)
			}
			return "", first, 0, err
		}
		if count++; count == 1 {
			first = item
			continue
		}
		if list.Meta != nil && list.Meta.ResourceVersion != "" { // the second page has started
			count = -1
			if rest := list.Meta.RemainingItemCount; rest != nil {
				count = 1 + int(*rest)
			}
			break
		}
		fed()
	}
	if list.Meta == nil || list.Meta.ResourceVersion == "" {
		return "", first, 0, ErrNoRV
	}
	return list.Meta.ResourceVersion, first, count, nil
}
