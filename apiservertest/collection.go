package apiservertest

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/millrace-dev/millrace/apiservertest/internal/ownership"
	"github.com/millrace-dev/millrace/object"
)

// version is one stored state of an object. It never changes once stored. It is encoded at most once per
// format, no matter how many clients read it.
type version struct {
	res  *Resource
	rv   uint64
	path string // "namespace/name", the sort key of lists
	obj  object.Object

	encodings [formats]encoding
	readings  readings
}

// event is one change. prev is nil for a creation; gone is set for a deletion.
type event struct {
	rv   uint64
	prev *version
	cur  *version // for a deletion: the last state, with the deletion's version
	gone bool

	leftOnce sync.Once
	left     *version
}

// leaving returns the object to send to watchers whose selector no longer matches: the previous state,
// with the change's version.
func (e *event) leaving() *version {
	if e.gone {
		return e.cur
	}
	e.leftOnce.Do(func() { e.left = e.prev.at(e.rv) })
	return e.left
}

// seenBy returns the event that a watcher with selector sel receives for e from a server that reads objects
// through r, or false if there is none. It follows the rules of the API server's watch cache.
func (e *event) seenBy(sel *selector, r *reading) (watch.EventType, *version, bool) {
	cur := e.cur.readAs(r)
	was := e.prev != nil && sel.matches(e.prev.readAs(r))
	is := !e.gone && sel.matches(cur)
	switch {
	case is && was:
		return watch.Modified, cur, true
	case is:
		return watch.Added, cur, true
	case was:
		return watch.Deleted, e.leaving().readAs(r), true
	}
	return "", nil, false
}

func formatRV(rv uint64) string { return strconv.FormatUint(rv, 10) }

// at returns a copy of v with a different resource version.
func (v *version) at(rv uint64) *version {
	obj := v.obj.DeepCopyObject().(object.Object)
	obj.SetResourceVersion(formatRV(rv))
	return &version{res: v.res, rv: rv, path: v.path, obj: obj}
}

// collection holds everything stored for one resource:
//
//	objects  path -> newest version
//	paths    the keys of objects, sorted
//	log      the newest changes, oldest first, after base dropped ones
//
// A past state is reconstructed by undoing the newer changes in the log. States older than floor are
// unavailable, just as after a compaction. Compacting or trimming the history merely raises floor. The
// log may go back further, for watches that have not sent all of it and for lagging servers. The
// cluster's mutex guards all fields. The log's array is append-only, so a slice of it may be read
// without the mutex.
type collection struct {
	Resource
	owners func() (*owners, error) // built on the first write

	objects map[string]*version
	paths   []string
	log     []*event
	base    int           // number of changes dropped from the front of log
	floor   uint64        // oldest available version; log has all later changes
	last    uint64        // version of the newest change, or version at registration if there is none
	born    uint64        // version at registration; every server starts with that state
	changed chan struct{} // closed and replaced on each change
	gone    bool          // the resource is no longer served
	removed chan struct{} // closed when gone is set
}

func newCollection(r Resource, types *ownership.Types, rv uint64) *collection {
	return &collection{
		Resource: r,
		owners:   sync.OnceValues(func() (*owners, error) { return newOwners(types, &r) }),
		objects:  map[string]*version{},
		floor:    rv,
		last:     rv,
		born:     rv,
		changed:  make(chan struct{}),
		removed:  make(chan struct{}),
	}
}

// end marks the resource as no longer served, even for requests that have already looked up the collection.
func (c *collection) end() {
	c.gone = true
	close(c.removed)
}

// slowest is the number of changes that an open watch may lag behind without being closed, even if the
// history is shorter. It is about the length of a real server's queue for a watch, and far more than the
// number of simultaneous changes, so which watches are closed does not depend on chance.
const slowest = 1000

// apply applies and logs e. It keeps the last history changes, since watches may start from any of
// them, and all changes after version seen.
func (c *collection) apply(e *event, history int, seen uint64) {
	path := e.cur.path
	at, found := slices.BinarySearch(c.paths, path)
	switch {
	case e.gone:
		delete(c.objects, path)
		if found {
			c.paths = slices.Delete(c.paths, at, at+1)
		}
	default:
		c.objects[path] = e.cur
		if !found {
			c.paths = slices.Insert(c.paths, at, path)
		}
	}
	c.log = append(c.log, e)
	c.last = e.rv
	if known := len(c.log) - (c.position(c.floor) - c.base); known >= 2*history {
		c.floor = c.log[len(c.log)-history-1].rv
	}
	// Because trimming is this rare, its cost per change is constant.
	if keep := 2*history + slowest; len(c.log) >= keep+max(history, slowest) {
		c.forget(min(len(c.log)-keep, c.position(seen)-c.base))
	}
	c.wake()
}

// wake wakes the watches.
func (c *collection) wake() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// forget drops the n oldest changes.
func (c *collection) forget(n int) {
	if n <= 0 {
		return
	}
	c.base += n
	c.log = slices.Clone(c.log[n:])
}

// position returns the number of changes up to rv, including dropped ones.
func (c *collection) position(rv uint64) int {
	at, _ := slices.BinarySearchFunc(c.log, rv+1, func(e *event, rv uint64) int {
		return cmp.Compare(e.rv, rv)
	})
	return c.base + at
}

// since returns the changes starting at position at. It returns false if some of them were dropped.
func (c *collection) since(at int) ([]*event, bool) {
	if at < c.base {
		return nil, false
	}
	return c.log[at-c.base : len(c.log) : len(c.log)], true
}

// now returns the current versions with the prefix, sorted by path, starting at start.
func (c *collection) now(start, prefix string) []*version {
	at, _ := slices.BinarySearch(c.paths, max(start, prefix))
	list := make([]*version, 0, len(c.paths)-at)
	for _, path := range c.paths[at:] {
		if !strings.HasPrefix(path, prefix) {
			break
		}
		list = append(list, c.objects[path])
	}
	return list
}

// past is like now, but for the state at rv, which must not be older than floor.
func (c *collection) past(rv uint64, start, prefix string) []*version {
	undo := map[string]*version{}
	for _, e := range c.log[c.position(rv)-c.base:] {
		if _, seen := undo[e.cur.path]; !seen {
			undo[e.cur.path] = e.prev // the state at rv is the prev of the first later change
		}
	}
	list := slices.DeleteFunc(c.now(start, prefix), func(v *version) bool {
		_, changed := undo[v.path]
		return changed
	})
	for path, v := range undo {
		if v != nil && path >= start && strings.HasPrefix(path, prefix) {
			list = append(list, v)
		}
	}
	slices.SortFunc(list, func(a, b *version) int { return strings.Compare(a.path, b.path) })
	return list
}

// pathOf returns the sort key of an object in lists.
func (r *Resource) pathOf(k object.Key) string {
	if !r.Namespaced {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}
