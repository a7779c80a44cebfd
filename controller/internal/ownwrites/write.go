package ownwrites

import (
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
)

// Write is something that a reconcile wrote, and how to tell that a cache has it.
type Write struct {
	cache cache
	about object.Key  // the object
	rv    string      // up to which the cache has to come in the object's namespace
	alive bool        // the object is not being deleted
	uid   types.UID   // of a deletion: that of the deleted object, empty if it is not known
	gone  func() bool // of a deletion or a conflict, which have no resource version
	sent  string      // of a conflict: the version that was sent
	heard uint64      // what the cache had heard of the namespace when the reconcile ended
}

func (w *Write) seen() bool {
	if w.gone != nil {
		return w.gone()
	}
	return w.cache.reached(w.about.Namespace, w.rv)
}

// due reports whether a watch that lives shows the write. If the UID of a deleted object is not known,
// the cache may have the next one of its name.
func (w *Write) due() bool { return w.rv != "" || w.sent != "" || w.uid != "" }

// String is for messages.
func (w *Write) String() string {
	if w.sent != "" {
		return fmt.Sprintf("%s: another version of %s than %s, which met a conflict", w.cache.name(), object.FormatKey(w.about), w.sent)
	}
	if w.gone != nil {
		return fmt.Sprintf("%s: the deletion of %s", w.cache.name(), object.FormatKey(w.about))
	}
	return fmt.Sprintf("%s: resource version %s of %s", w.cache.name(), w.rv, object.FormatKey(w.about))
}

// Writes collects what one reconcile writes. The zero value is empty. It is safe for
// concurrent use.
type Writes struct {
	mu        sync.Mutex // guards all below; nothing is called while it is held
	versions  []Write    // that a resource version tells of: one for each cache and namespace
	deletions []Write
}

// Add notes a write that the cache has to see before the next reconcile. Of those
// that one resource version tells of, the latest is enough. An object that is not being deleted
// was made after any deletion under its key, so a cache that has it has seen those. That counts for
// deletions of an unknown UID alone: the others need no help, and of writes at the same time the
// answer to one from before the deletion may come after it.
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
		if object.ReachedRV(before.rv, w.rv) {
			return
		}
		if object.ReachedRV(w.rv, before.rv) {
			*before = w
			return
		}
	}
	all.versions = append(all.versions, w)
}

// list returns what was noted so far, in memory of its own: a goroutine that outlives the reconcile
// may note more.
func (all *Writes) list() []Write {
	all.mu.Lock()
	defer all.mu.Unlock()
	return slices.Concat(all.versions, all.deletions)
}
