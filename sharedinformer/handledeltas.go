package sharedinformer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/internal/sharding"
	"github.com/millrace-dev/millrace/object"
)

// process applies what the feeds queue until ctx is done, which is when they have
// ended, and nothing is left in the queue.
func (i *core) process(ctx context.Context, r *run) {
	var err error
	guard := failure.Guard{In: "a method of an object"}
	defer func() {
		if err != nil {
			i.markBroken(r, err)
		}
	}()
	defer guard.End(&err, func(error) { err = &failure.GoexitError{In: "an index function"} }) // a key says its name
	i.applyQueued(ctx)
	guard.Returned()
}

// markBroken ends the run, and all later ones, if the user's code has panicked, or called
// runtime.Goexit, in the middle of a batch: the batch is in the cache in part only.
func (i *core) markBroken(r *run, err error) {
	now := time.Now()
	f := &failure.Failure{
		Resource: i.Name(), Phase: failure.PhaseIndex, Attempts: 1, Since: now, Last: now,
		Err: fmt.Errorf("%w; the cache is unusable: fix the function and create a new informer", err),
	}
	if _, ok := errors.AsType[*failure.PanicError](err); ok {
		f.Phase = failure.PhaseCache
	}
	i.failure.Store(f)
	i.broken.Store(f)
	i.synced.Store(false)
	r.fail(f)
	i.report(context.WithoutCancel(r.ctx), f)
}

// applyQueued is process without its end.
func (i *core) applyQueued(ctx context.Context) {
	var reuse []deltafifo.Delta
	for {
		deltas, err := i.queue.Pop(ctx, reuse)
		if err != nil {
			break
		}
		i.handleDeltas(deltas)
		reuse = deltas
	}
	for deltas := i.queue.TryPop(); deltas != nil; deltas = i.queue.TryPop() {
		i.handleDeltas(deltas)
	}
}

// batchInProgress is a batch that has left the queue.
type batchInProgress struct {
	deltas int
	at     time.Time
}

// handleDeltas applies one batch to the cache, in one write, and appends what
// it changed to the log, in one append. It is the informer's own step, called
// by Run's goroutine alone.
func (i *core) handleDeltas(deltas []deltafifo.Delta) {
	i.applying.Store(&batchInProgress{len(deltas), time.Now()})
	changes := applier{informer: i}
	if i.ownership != nil {
		changes.terms = i.ownership.Last()
	}
	changes.reserve(deltas, !i.synced.Load())
	changes.reuseEqual(deltas)
	failures, look := i.applyBatch(deltas, &changes)
	i.indexFailed(failures)
	for _, s := range changes.settled {
		s.feed.reflector.Settle(s.taken)
	}
	if i.mutations != nil {
		look()
	}
	i.applying.Store(nil)
	i.changed.broadcast()
}

// applyBatch is the part of handleDeltas that is done under join.
func (i *core) applyBatch(deltas []deltafifo.Delta, changes *applier) (failures []*indexer.IndexError, look func()) {
	i.join.Lock()
	defer i.join.Unlock() // an index function may end the goroutine
	i.batches.Add(1)
	defer i.batches.Add(1)
	failures = i.cache.Write(func(w indexer.Writer) {
		for n := range deltas {
			changes.apply(w, &deltas[n])
		}
		i.feeds.advance(w, deltas)
		if i.mutations != nil { // before anybody sees the objects
			look = i.mutations.track(changes.events)
		}
		if i.packing != nil {
			i.packing.weigh(changes.events)
		}
	})
	for _, l := range changes.lists {
		l.feed.heldGains.Store(l.gains)
	}
	i.publish(changes)
	return failures, look
}

// publish appends what a batch changed to the log and wakes the handlers. It
// is called under join.
func (i *core) publish(changes *applier) {
	if len(changes.events) > 0 {
		applied := time.Now()
		for n := range changes.events {
			if e := &changes.events[n]; !e.Received.IsZero() {
				e.AppliedAfter = applied.Sub(e.Received)
			}
		}
		i.recordApplied(changes.events, applied)
		i.appendSegment(&segment{events: changes.events})
	}
	if changes.maySync && !i.synced.Load() && i.feeds.complete() {
		if i.snapshots != nil {
			i.snapshots.dropLoaded()
		}
		i.synced.Store(true)
		i.appendSegment(&segment{synced: true})
	}
	if !changes.resync {
		return
	}
	targets := make(map[mailbox]struct{})
	for _, d := range *i.handlers.Load() {
		if m := d.mailbox; d.resyncDue.Swap(false) && d.HasSynced() && m.claimResync() {
			targets[m] = struct{}{}
		}
	}
	if len(targets) > 0 {
		objects, _ := i.cache.Snapshot()
		i.appendSegment(&segment{resync: &resync{objects: objects, targets: targets}})
	}
}

// appendSegment links s to the log and offers it to every handler.
func (i *core) appendSegment(s *segment) {
	i.log.append(s)
	for _, d := range *i.handlers.Load() {
		d.offer(s)
	}
}

// applier turns deltas, which say what the server said, into events, which say
// what that means to a handler that knows the cache (L03, L04).
type applier struct {
	informer *core
	initial  bool // Adds of a Replaced are part of an initial list
	maySync  bool // the cache may have become whole
	resync   bool
	events   []event
	settled  []settled

	// Where a share of the objects is wanted:
	terms     *sharding.Terms // nil where all are
	lists     []appliedList
	list      *sharding.List // that is being applied
	heldGains uint64         // the gains before the list of the feed before that
}

// settled is what became of a late delta.
type settled struct {
	feed  *feed
	taken bool
}

// reserve makes room for the events that deltas are likely to cause. A set that
// replaces another as a rule changes little of it.
func (a *applier) reserve(deltas []deltafifo.Delta, initial bool) {
	n := len(deltas)
	if initial {
		for i := range deltas {
			n += len(deltas[i].Items)
		}
	}
	a.events = make([]event, 0, n)
}

func (a *applier) apply(w indexer.Writer, d *deltafifo.Delta) {
	switch {
	case d.Type == deltafifo.Passed:
		a.applyPassed(w, d, d.Part.Away[0], d.Part.Gone)
		return
	case a.terms != nil && d.Type <= deltafifo.Deleted && a.terms.Since(d.Object) == 0:
		a.applyPassed(w, d, object.VersionOf(d.Object), d.Type == deltafifo.Deleted)
		return
	case d.Late && !a.takesLate(w, d):
		return
	}
	switch d.Type {
	case deltafifo.Added, deltafifo.Updated:
		if old, existed, changed := w.Set(d.Key, d.Object); changed {
			a.addChange(d, indexer.Change{Key: d.Key, Old: old, New: d.Object, Existed: existed, Exists: true})
		}
	case deltafifo.Deleted:
		a.applyDeletion(w, d)
	case deltafifo.Replaced:
		a.applyList(w, d)
	case deltafifo.Sync:
		a.resync = true
		a.informer.syncing.Store(false)
	case deltafifo.Trim:
		a.applyTrim(w, d)
	case deltafifo.Drop:
		w.Drop(d.Part.Drop, func(c indexer.Change) { a.addEvent(d, event{Type: Delete, Object: c.Old, Moved: true}) })
	case deltafifo.Bookmark: // its RV is the batch's
		a.informer.recordBookmark(d.RV)
	}
}

// applyPassed drops the cached object of a key if a change says that it is not wanted any more, that
// it was deleted, or that another one has its key.
func (a *applier) applyPassed(w indexer.Writer, d *deltafifo.Delta, now object.Version, deleted bool) {
	have, cached := w.Get(d.Key)
	if !cached || olderThan(now.RV, have) {
		return
	}
	w.Delete(d.Key)
	e := event{Type: Delete, Object: have}
	switch ended := deleted || have.GetUID() != now.UID; {
	case ended:
		e.FinalStateUnknown = true
		a.informer.tombstones.add(have, neverReturns)
	case a.terms == nil: // it may come back
		e.FinalStateUnknown = true
		a.informer.tombstones.add(have, now.RV)
	default:
		e.Moved = true
	}
	a.addEvent(d, e)
}

// olderThan reports whether a version is known to be below that of a cached object.
func olderThan(rv string, have object.Head) bool {
	order, err := object.CompareRV(rv, have.GetResourceVersion())
	return err == nil && order < 0
}

// takesLate reports whether a late delta is news: later than what is cached under its key,
// or about an object that is not known to have gone.
func (a *applier) takesLate(w indexer.Writer, d *deltafifo.Delta) bool {
	have, cached := w.Get(d.Key)
	taken := d.Type != deltafifo.Deleted
	if cached {
		taken = d.Outdates(have)
	}
	if taken && (!cached || have.GetUID() != d.Object.GetUID()) {
		taken = !a.informer.tombstones.covers(d.Object)
	}
	if f := feedCovering(a.informer.feeds.all(), d.Key.Namespace); f != nil {
		a.settled = append(a.settled, settled{f, taken})
	}
	return taken
}

// applyList applies a whole set. One of a namespace that has gone meanwhile
// is no feed's.
func (a *applier) applyList(w indexer.Writer, d *deltafifo.Delta) {
	f := feedCovering(a.informer.feeds.all(), d.Key.Namespace)
	if f != nil && f.namespace != d.Key.Namespace {
		f = nil
	}
	a.initial = f == nil || !f.listed
	if a.terms != nil {
		a.startShardList(d, f)
	}
	replace := w.Replace
	if d.Anew {
		replace = w.Renew
	}
	replace(d.Key.Namespace, d.Items, func(c indexer.Change) { a.addChange(d, c) })
	a.informer.recordList(len(d.Items), d.RV, a.initial)
	if f != nil {
		f.listed, a.maySync = true, true
		if a.informer.snapshots != nil {
			a.informer.snapshots.noteList(f, d.Anew, !a.initial)
		}
	}
}

// applyTrim drops the objects of the namespaces that are no longer wanted.
func (a *applier) applyTrim(w indexer.Writer, d *deltafifo.Delta) {
	feeds := &a.informer.feeds
	if feeds.trims--; feeds.trims > 0 {
		return
	}
	w.Trim(feeds.covers, func(c indexer.Change) { a.addEvent(d, event{Type: Delete, Object: c.Old}) })
	a.maySync = true
}

// applyDeletion adds the event of a deletion: with its final state, or, if the cache holds
// an older object of that name, without, because the deletion of that one was missed.
func (a *applier) applyDeletion(w indexer.Writer, d *deltafifo.Delta) {
	old, existed := w.Delete(d.Key)
	a.informer.tombstones.add(d.Object, d.Object.GetResourceVersion())
	if !existed {
		return
	}
	if old.GetUID() != d.Object.GetUID() {
		a.informer.tombstones.add(old, neverReturns)
		a.addEvent(d, event{Type: Delete, Object: old, FinalStateUnknown: true})
		return
	}
	a.addEvent(d, event{Type: Delete, Object: d.Object, Old: old})
}

// addChange adds the events of a change, which a list may have found.
func (a *applier) addChange(d *deltafifo.Delta, c indexer.Change) {
	switch {
	case !c.Exists && a.terms != nil && a.list.Moved(c.Old):
		a.addEvent(d, event{Type: Delete, Object: c.Old, Moved: true})
	case !c.Exists:
		a.informer.tombstones.add(c.Old, d.RV)
		a.addEvent(d, event{Type: Delete, Object: c.Old, FinalStateUnknown: true})
	case !c.Existed:
		initial := a.ofInitialList(d)
		a.addEvent(d, event{Type: Add, Object: c.New, Initial: initial, Moved: !initial && a.terms != nil && a.movedIn(d, c.New)})
	case c.Old.GetUID() != c.New.GetUID():
		a.informer.tombstones.add(c.Old, neverReturns)
		a.addEvent(d, event{Type: Delete, Object: c.Old, FinalStateUnknown: true})
		a.addEvent(d, event{Type: Add, Object: c.New})
	default:
		a.addEvent(d, event{Type: Update, Old: c.Old, Object: c.New})
	}
}

// ofInitialList reports whether an object that d brings belongs to the initial list. A change does
// if the list of its namespace is still to come: a newer one superseded it in the queue, or the change
// is of a feed that has left.
func (a *applier) ofInitialList(d *deltafifo.Delta) bool {
	switch {
	case d.Type == deltafifo.Replaced:
		return a.initial
	case a.informer.synced.Load():
		return false
	}
	f := feedCovering(a.informer.feeds.all(), d.Key.Namespace)
	return f != nil && !f.listed
}

func (a *applier) addEvent(d *deltafifo.Delta, e event) {
	if e.Received = d.Received; !e.Received.IsZero() {
		e.DecodedAfter, e.QueuedAfter = d.Decoded.Sub(d.Received), d.Queued.Sub(d.Received)
	}
	a.events = append(a.events, e)
}
