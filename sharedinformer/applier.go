package sharedinformer

import (
	"maps"
	"slices"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/internal/sharding"
	"github.com/millrace-dev/millrace/object"
)

// applier turns deltas, which describe changes on the server, into events, which tell handlers about changes
// in the cache (L03, L04).
type applier struct {
	informer *core
	initial  bool // Adds from a Replaced delta belong to an initial list
	maySync  bool // the cache may now be complete
	resync   bool
	events   []event
	settled  []settled

	// For sharded informers:
	terms     *sharding.Terms // nil if the informer covers all objects
	lists     []appliedList
	list      *sharding.List // the list being applied
	heldGains uint64         // number of gains before the feed's previous list
}

// settled is the outcome of handling a late delta.
type settled struct {
	feed  *feed
	taken bool
}

// reserve preallocates space for the expected number of events. A list that replaces another usually contains
// few changes.
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
		lost := func(o object.Head) bool { return d.Part.Lost.HasHash(a.informer.ownership.Key.Hash(o)) }
		w.Drop(lost, func(c indexer.Change) { a.addMove(d, c.Old, c.Old.GetResourceVersion()) })
	case deltafifo.Bookmark: // its RV covers the whole batch
		a.informer.recordBookmark(d.RV)
	}
}

// applyPassed drops the object cached under a key if the change shows that the object left the share or
// selection, was deleted, or was replaced by another one with the same name.
func (a *applier) applyPassed(w indexer.Writer, d *deltafifo.Delta, now object.Version, deleted bool) {
	have, cached := w.Get(d.Key)
	if !cached || olderThan(now.RV, have) {
		return
	}
	w.Delete(d.Key)
	e := event{Type: Delete, Object: have}
	if deleted || have.GetUID() != now.UID {
		e.FinalStateUnknown = true
		a.informer.tombstones.add(have, neverReturns)
	} else { // the object may come back
		e.Moved, e.FinalStateUnknown = a.terms != nil, a.terms == nil
		a.informer.tombstones.add(have, now.RV)
	}
	a.addEvent(d, e)
}

// olderThan reports whether rv is known to be older than a cached object.
func olderThan(rv string, have object.Head) bool {
	order, err := object.CompareRV(rv, have.GetResourceVersion())
	return err == nil && order < 0
}

// takesLate reports whether a late delta should be applied, that is, whether it is newer than the object
// cached under its key, if any, and no tombstone covers its object.
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

// applyList applies a list. If the namespace has since been removed, the list has no feed, even if the namespace was
// added again.
func (a *applier) applyList(w indexer.Writer, d *deltafifo.Delta) {
	f := feedCovering(a.informer.feeds.all(), d.Key.Namespace)
	if f != nil && (f.namespace != d.Key.Namespace || f.sender != d.Sender) {
		f = nil
	}
	a.initial = f == nil || !f.listed.Load()
	if a.terms != nil {
		a.startShardList(d, f)
	}
	replace := w.Replace
	if d.NewHistory {
		replace = w.Renew
	}
	replace(d.Key.Namespace, d.Items, func(c indexer.Change) { a.addChange(d, c) })
	a.informer.recordList(len(d.Items), d.RV, a.initial)
	if f != nil {
		f.listed.Store(true)
		a.maySync = true
		if a.informer.snapshots != nil {
			a.informer.snapshots.noteList(f, d.NewHistory, !a.initial)
		}
	}
}

// applyTrim drops the objects in removed namespaces.
func (a *applier) applyTrim(w indexer.Writer, d *deltafifo.Delta) {
	feeds := &a.informer.feeds
	if feeds.trims--; feeds.trims > 0 {
		return
	}
	w.Trim(feeds.covers, func(c indexer.Change) { a.addEvent(d, event{Type: Delete, Object: c.Old}) })
	a.maySync = true
}

// applyDeletion adds the event for a deletion. If the cache contains an older object with the same name, that
// object's deletion was missed, and its final state is unknown.
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

// addChange adds the events for a change, which may come from a list.
func (a *applier) addChange(d *deltafifo.Delta, c indexer.Change) {
	if !c.Exists && a.terms != nil {
		if rv, moved := a.list.Moved(c.Old); moved {
			a.addMove(d, c.Old, rv)
			return
		}
	}
	switch {
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

// addMove adds a Delete for an object that belonged to another process as of rv. The object may come back
// later.
func (a *applier) addMove(d *deltafifo.Delta, o object.Head, rv string) {
	a.informer.tombstones.add(o, rv)
	a.addEvent(d, event{Type: Delete, Object: o, Moved: true})
}

// ofInitialList reports whether an object in d belongs to the initial list. A single change belongs to it if
// its namespace's list has not been applied yet, either because a newer list superseded it in the queue or
// because the change comes from a removed feed.
func (a *applier) ofInitialList(d *deltafifo.Delta) bool {
	switch {
	case d.Type == deltafifo.Replaced:
		return a.initial
	case a.informer.synced.Load():
		return false
	}
	f := feedCovering(a.informer.feeds.all(), d.Key.Namespace)
	return f != nil && !f.listed.Load()
}

// startShardList prepares to apply a feed's list; f is nil if the feed was removed.
func (a *applier) startShardList(d *deltafifo.Delta, f *feed) {
	a.list, a.heldGains = a.terms.List(d.Part.Gains, d.Part.Away), 0
	d.Items = a.list.Owned(d.Items)
	if f != nil {
		a.heldGains = f.heldGains.Load()
		a.lists = append(a.lists, appliedList{f, d.Part.Gains})
	}
}

// appliedList is a list that was applied, with the number of gains that preceded it.
type appliedList struct {
	feed  *feed
	gains uint64
}

// movedIn reports whether an object that is new to the cache existed before, in a slot or under a key that
// this process did not own.
func (a *applier) movedIn(d *deltafifo.Delta, o object.Head) bool {
	return d.Type == deltafifo.Updated || d.Type == deltafifo.Replaced && a.terms.Since(o) > a.heldGains
}

func (a *applier) addEvent(d *deltafifo.Delta, e event) {
	if e.Received = d.Received; !e.Received.IsZero() {
		e.DecodedAfter, e.QueuedAfter = d.Decoded.Sub(d.Received), d.Queued.Sub(d.Received)
	}
	a.events = append(a.events, e)
}

// reuseEqual replaces each listed object with an equal one from the cache or from an earlier delta. It does
// so only if the server's history was rolled back, because equal versions then imply equal content only
// within the same list. The caller must hold no locks.
func (a *applier) reuseEqual(deltas []deltafifo.Delta) {
	if !slices.ContainsFunc(deltas, func(d deltafifo.Delta) bool { return d.NewHistory }) {
		return
	}
	cache := a.informer.cache.Reader()
	coming := map[object.Key]object.Head{}
	known := func(key object.Key) (object.Head, bool) {
		if o, ok := coming[key]; ok {
			return o, true
		}
		return cache.Get(key)
	}
	note := func(o object.Head) {
		key := object.KeyOf(o)
		if have, ok := known(key); ok && sameVersion(have, o) {
			o = have // as the cache does
		}
		coming[key] = o
	}
	for n := range deltas {
		d := &deltas[n]
		switch {
		case d.NewHistory:
			d.Items = slices.Clone(d.Items) // they may also be those of a saved state, which others read
			maps.Copy(coming, a.reuseEqualItems(d.Items, known))
		case d.Type == deltafifo.Replaced:
			for _, item := range d.Items {
				note(item)
			}
		case d.Type <= deltafifo.Updated && !d.Late:
			note(d.Object)
		}
	}
}

// reuseEqualItems is reuseEqual for one list. It returns the listed objects by key.
func (a *applier) reuseEqualItems(items []object.Head, known func(object.Key) (object.Head, bool)) map[object.Key]object.Head {
	listed := make(map[object.Key]object.Head, len(items))
	for at, item := range items {
		key := object.KeyOf(item)
		if first, again := listed[key]; again && sameVersion(first, item) {
			items[at] = first
			continue
		}
		if have, ok := known(key); ok && a.informer.equal(have, item) {
			items[at] = have
		}
		listed[key] = items[at]
	}
	return listed
}

func sameVersion(a, b object.Head) bool {
	return a.GetUID() == b.GetUID() && a.GetResourceVersion() == b.GetResourceVersion()
}
