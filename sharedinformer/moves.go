package sharedinformer

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/indexer"
	"github.com/millrace-dev/millrace/object"
)

// What a batch does to a cache that has its share of the objects only. All of it is done
// under join, and nothing of it where all objects are wanted.

// floor is the version of a list of what was gained. Until the watch has come there, what it
// tells of the slots that came between two turns is older than the list.
type floor struct {
	after, upTo uint64
	rv          string
}

// keeper is the feed whose lists tell what the cache has of a namespace: the one that had it
// before, until its own has come; nil where there is none.
func (a *applier) keeper(namespace string) *feed {
	f := feedOf(a.informer.feeds.all(), namespace)
	if f != nil && !f.whole {
		return feedOf(f.before, namespace)
	}
	return f
}

// keepers returns the feeds by whose lists the cache has what it has of feeds, sorted by namespace.
func keepers(feeds []*feed) (all []*feed) {
	for _, f := range feeds {
		if f.whole {
			all = append(all, f)
		} else {
			all = append(all, f.before...)
		}
	}
	slices.SortFunc(all, func(a, b *feed) int { return strings.Compare(a.namespace, b.namespace) })
	return slices.Compact(all)
}

// succeed notes which of the keepers have objects of the namespace of f, until f is whole.
func (f *feed) succeed(keepers []*feed) {
	if f.namespace == metav1.NamespaceAll {
		f.before = keepers
		return
	}
	for _, namespace := range []string{metav1.NamespaceAll, f.namespace} {
		n, _ := slices.BinarySearchFunc(keepers, namespace, func(f *feed, namespace string) int {
			return strings.Compare(f.namespace, namespace)
		})
		for ; n < len(keepers) && keepers[n].namespace == namespace; n++ {
			f.before = append(f.before, keepers[n])
		}
	}
}

// held is the turn at which the slot of an object came, if the cache has what is in it by the
// lists of f: 0 where the slot is not ours, or is yet to be listed.
func (a *applier) held(f *feed, o object.Head) uint64 {
	since := a.terms.of(a.informer.shards.Key.Hash(o))
	if f != nil && since > f.listed {
		return 0
	}
	return since
}

// ours reports whether a change of an object is for the cache. Where the object has moved
// away it tells of that.
func (a *applier) ours(w indexer.Writer, d *deltafifo.Delta) bool {
	f := a.keeper(d.Key.Namespace)
	if f == nil {
		return false
	}
	have, cached := w.Get(d.Key)
	if d.Type == deltafifo.Passed {
		if of := d.Part.Away[0]; cached && !olderThan(of.RV, have) {
			a.leave(w, d, have, of.UID, d.Part.Gone)
		}
		return false
	}
	since := a.held(f, d.Object)
	switch rv := d.Object.GetResourceVersion(); {
	case since == 0:
		if cached && !olderThan(rv, have) { // what is cached may be of the list of what was gained
			a.leave(w, d, have, d.Object.GetUID(), d.Type == deltafifo.Deleted)
		}
		return false
	case len(f.floors) == 0:
		return true
	case cached: // it may be of the list
		return !olderThan(rv, have)
	default:
		return !slices.ContainsFunc(f.floors, func(l floor) bool {
			return l.after < since && since <= l.upTo && object.ReachedRV(l.rv, rv)
		})
	}
}

// olderThan reports whether a version is known to be below that of a cached object.
func olderThan(rv string, have object.Head) bool {
	order, err := object.CompareRV(rv, have.GetResourceVersion())
	return err == nil && order < 0
}

// reached takes note that the watch has come to the version of a delta.
func (a *applier) reached(d *deltafifo.Delta) {
	f := a.keeper(d.Key.Namespace)
	if f == nil || d.RV == "" || len(f.floors) == 0 {
		return
	}
	f.floors = slices.DeleteFunc(f.floors, func(l floor) bool { return object.ReachedRV(d.RV, l.rv) })
}

// leave takes a cached object away, of which a change says that it is not ours any more, or
// that another one has its name, or that it was deleted.
func (a *applier) leave(w indexer.Writer, d *deltafifo.Delta, have object.Head, uid types.UID, deleted bool) {
	e := event{Type: Delete, Object: have, Moved: true}
	if deleted || have.GetUID() != uid {
		e.Moved, e.FinalStateUnknown = false, true
		a.informer.gone.add(have, forGood)
	}
	w.Delete(d.Key)
	a.add(d, e)
}

// lose tells of what goes with the slots that were lost.
func (a *applier) lose(w indexer.Writer, d *deltafifo.Delta) {
	w.Drop(func(o object.Head) bool {
		return a.held(a.keeper(o.GetNamespace()), o) > 0 // what else is in no feed's namespace is trimmed
	}, func(c indexer.Change) { a.add(d, event{Type: Delete, Object: c.Old, Moved: true}) })
}

// gained tells of what came with slots: what a list has shown that began when they were
// ours. A slot that was lost since then is not.
func (a *applier) gained(w indexer.Writer, d *deltafifo.Delta) {
	f := feedOf(a.informer.feeds.all(), d.Key.Namespace)
	if f == nil || f.namespace != d.Key.Namespace || !f.whole {
		return // the first list of a feed shows it too
	}
	for _, o := range d.Items {
		since := a.terms.of(a.informer.shards.Key.Hash(o))
		if since <= f.listed || since > d.Part.Turn {
			continue
		}
		key := object.KeyOf(o)
		if old, existed, changed := w.Set(key, o); changed {
			a.event(d, indexer.Change{Key: key, Old: old, New: o, Existed: existed, Exists: true})
		}
	}
	f.floors = append(f.floors, floor{f.listed, d.Part.Turn, d.Part.At})
	a.lists(f, d.Part.Turn)
	a.informer.replaced(len(d.Items), d.Part.At, false)
}

// lists takes note of the turn of a list that is being applied.
func (a *applier) lists(f *feed, turn uint64) {
	f.listed, f.before = turn, nil
	a.listed = append(a.listed, f)
}

// narrow leaves out of a whole list what is not ours any more, or came after it began.
func (a *applier) narrow(d *deltafifo.Delta, f *feed) {
	before := f.listed
	f.floors = nil
	a.lists(f, d.Part.Turn)
	a.away = make(map[identity]struct{}, len(d.Part.Away))
	for _, v := range d.Part.Away {
		a.away[identity{v.Key, v.UID}] = struct{}{}
	}
	d.Items = slices.DeleteFunc(d.Items, func(o object.Head) bool {
		if a.held(f, o) > 0 {
			return false
		}
		a.away[identity{object.KeyOf(o), o.GetUID()}] = struct{}{}
		return true
	})
	a.listing, a.listedBefore = f, before
}

// moved reports whether an object that a list lacks has moved.
func (a *applier) moved(o object.Head) bool {
	_, away := a.away[identity{object.KeyOf(o), o.GetUID()}]
	return away || a.held(a.listing, o) == 0
}

// came reports whether an object that is new to the cache was there before, in a slot or
// with a key that was not ours.
func (a *applier) came(d *deltafifo.Delta, o object.Head) bool {
	switch d.Type {
	case deltafifo.Gained, deltafifo.Updated:
		return true
	case deltafifo.Replaced:
		return a.held(a.listing, o) > a.listedBefore
	}
	return false
}
