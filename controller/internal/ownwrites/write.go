package ownwrites

import (
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
)

// Write is a write made by a reconcile that a cache has to see.
type Write struct {
	cache cache
	about object.Key  // the object
	rv    string      // the version that the cache has to reach in the object's namespace
	alive bool        // the object is not being deleted
	uid   types.UID   // for a deletion: the object's UID, if known
	gone  func() bool // for a deletion or a conflict, which have no resource version: whether the cache has seen it
	sent  string      // for a conflict: the version that was sent
	doubt bool        // the informer's selectors may exclude the object
	heard uint64      // messages received by the namespace's watch when the reconcile ended
}

func (w *Write) seen() bool {
	if w.gone != nil {
		return w.gone()
	}
	return w.cache.reached(w.about.Namespace, w.rv)
}

// due reports whether a working watch is bound to deliver the write. That is uncertain if the informer's selectors
// may exclude the object, or if the UID of a deleted object is unknown: the cache may already contain a new object
// with the same name.
func (w *Write) due() bool { return !w.doubt && (w.rv != "" || w.sent != "" || w.uid != "") }

// String describes the write for use in messages.
func (w *Write) String() string {
	if w.sent != "" {
		return fmt.Sprintf("%s: a version of %s other than %s, with which a write conflicted", w.cache.name(), object.FormatKey(w.about), w.sent)
	}
	if w.gone != nil {
		return fmt.Sprintf("%s: the deletion of %s", w.cache.name(), object.FormatKey(w.about))
	}
	return fmt.Sprintf("%s: resource version %s of %s", w.cache.name(), w.rv, object.FormatKey(w.about))
}

// Writes collects the writes made by a single reconcile. The zero value is empty. It is safe for
// concurrent use.
type Writes struct {
	mu        sync.Mutex // guards the fields below; no other code is called while it is held
	versions  []Write    // writes with a resource version, one per cache and namespace
	deletions []Write
	held      map[place]held // what the cache contains once it has seen the writes; if absent, the cache tells
}

// place is where a cache has an object.
type place struct {
	cache cache
	key   object.Key
}

// held is what a cache contains under a key.
type held struct {
	uid   types.UID // an object may have none
	any   bool
	doubt bool // any may be wrong, because the informer's selectors may exclude the object
}

// Held returns the UID of the object that a cache contains under key once it has seen the writes so far. It returns
// false if there is none.
func (all *Writes) Held(c Cache, key object.Key) (types.UID, bool) {
	now := all.holds(c, key)
	return now.uid, now.any
}

func (all *Writes) holds(c Cache, key object.Key) (now held) {
	if o, cached := c.informer.Heads().Get(key); cached {
		now = held{uid: o.GetUID(), any: true}
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	if later, known := all.held[place{c, key}]; known {
		now = later
	}
	return now
}

// Answered adds a write that the cache must see, given o, the object in the server's response. If the object does
// not match the informer's selector, the write matters only if the cache contained that object before, in which
// case the cache must drop it. The cache must also drop the object if the write removed it from the server; waiting
// for a version would not work, because the response's is no newer than the previous one. A response without a
// version says nothing about when the cache has seen the write, which is not awaited.
func (all *Writes) Answered(c Cache, o object.Object, kind object.GVK) {
	key, selected, gone := object.KeyOf(o), c.informer.Selects(o), removed(o, kind, c.informer.Source().Kept)
	if o.GetResourceVersion() == "" && !gone {
		return
	}
	doubt := !c.informer.Decides()
	if !selected || doubt { // otherwise, don't read the cache: an index function may block it
		before := all.holds(c, key)
		had := before.any && before.uid == o.GetUID()
		if !selected && !had {
			return
		}
		doubt = doubt && (!had || before.doubt)
	}
	w := Write{cache: c, about: key, rv: o.GetResourceVersion(), alive: o.GetDeletionTimestamp() == nil, doubt: doubt}
	if gone {
		cached, uid := c.informer.Heads(), o.GetUID()
		w.gone = func() bool {
			o, ok := cached.Get(key)
			return !ok || o.GetUID() != uid
		}
	}
	all.Add(w)
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.held == nil {
		all.held = make(map[place]held)
	}
	now := held{}
	if selected && !gone {
		now = held{uid: o.GetUID(), any: true, doubt: doubt}
	}
	all.held[place{c, key}] = now
}

// Add adds a write that the cache has to see before the next reconcile. Of the writes with a version in the
// same cache and namespace, only the latest matters. A live object was created after any deletion under its
// key, so a cache that contains the object has seen those deletions. Add relies on this only for deletions
// with an unknown UID. Other deletions do not need it, and if writes are concurrent, the response to an
// earlier write may arrive after the response to the deletion.
func (all *Writes) Add(w Write) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if w.gone != nil {
		all.deletions = append(all.deletions, w)
		return
	}
	if w.alive {
		all.deletions = slices.DeleteFunc(all.deletions, func(d Write) bool { return d.uid == "" && d.cache == w.cache && d.about == w.about })
	}
	for n := range all.versions {
		before := &all.versions[n]
		if before.cache != w.cache || before.about.Namespace != w.about.Namespace {
			continue
		}
		doubt := before.doubt && w.doubt // a working watch delivers one of them, perhaps not the last
		if object.ReachedRV(before.rv, w.rv) {
			before.doubt = doubt
			return
		}
		if object.ReachedRV(w.rv, before.rv) {
			*before = w
			before.doubt = doubt
			return
		}
	}
	all.versions = append(all.versions, w)
}

// list returns a copy of the writes so far; a goroutine that outlives the reconcile may add more.
func (all *Writes) list() []Write {
	all.mu.Lock()
	defer all.mu.Unlock()
	return slices.Concat(all.versions, all.deletions)
}
