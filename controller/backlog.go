package controller

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// cache is what parking needs of an informer of whatever type. Two that are equal
// are of one informer.
type cache interface {
	// reached reports whether the cache has seen all changes of a namespace up to a
	// resource version, or need not see them.
	reached(namespace, rv string) bool
	// wait waits until done is true, and asks that after every change. It fails
	// where the informer does.
	wait(ctx context.Context, done func() bool) error
	// heard counts what the watch of a namespace has told.
	heard(namespace string) uint64
	// reconnect has the watch of a namespace be opened again, if that has told nothing since
	// heard was read, for d or longer.
	reconnect(namespace string, heard uint64, d time.Duration, why error)
	name() string
}

// cacheOf is the cache of an informer.
type cacheOf struct {
	informer *sharedinformer.Informer[object.Object]
}

func (c cacheOf) reached(namespace, rv string) bool {
	have := c.informer.Cache().NamespaceRV(namespace)
	if have == "" {
		return !c.informer.Watches(namespace) // by now: its namespaces may change
	}
	return object.ReachedRV(have, rv)
}

func (c cacheOf) wait(ctx context.Context, done func() bool) error {
	return c.informer.WaitUntil(ctx, done)
}

func (c cacheOf) heard(namespace string) uint64 {
	s, _ := c.informer.StatusIn(namespace)
	return heardBy(s)
}

func heardBy(s reflector.Status) uint64 { return s.Events + s.Bookmarks + s.Passed + s.Duplicates }

func (c cacheOf) reconnect(namespace string, heard uint64, d time.Duration, why error) {
	s, watched := c.informer.StatusIn(namespace)
	if watched && s.State == reflector.Watching && time.Since(s.Since) >= d && heardBy(s) == heard {
		c.informer.ReconnectIn(namespace, why)
	}
}

func (c cacheOf) name() string { return c.informer.Name() }

// write is something that a reconcile wrote, and how to tell that a cache has it.
type write struct {
	cache cache
	about object.Key  // the object
	rv    string      // up to which the cache has to come in the object's namespace
	alive bool        // the object is not being deleted
	uid   types.UID   // of a deletion: that of the deleted object, empty if it is not known
	gone  func() bool // of a deletion or a conflict, which have no resource version
	sent  string      // of a conflict: the version that was sent
	heard uint64      // what the cache had heard of the namespace when the reconcile ended
}

func (w *write) seen() bool {
	if w.gone != nil {
		return w.gone()
	}
	return w.cache.reached(w.about.Namespace, w.rv)
}

// due reports whether a watch that lives shows the write. If the UID of a deleted object is not known,
// the cache may have the next one of its name.
func (w *write) due() bool { return w.rv != "" || w.sent != "" || w.uid != "" }

// String is for messages.
func (w *write) String() string {
	if w.sent != "" {
		return fmt.Sprintf("%s: another version of %s than %s, which met a conflict", w.cache.name(), object.FormatKey(w.about), w.sent)
	}
	if w.gone != nil {
		return fmt.Sprintf("%s: the deletion of %s", w.cache.name(), object.FormatKey(w.about))
	}
	return fmt.Sprintf("%s: resource version %s of %s", w.cache.name(), w.rv, object.FormatKey(w.about))
}

// backlog is the parked notes that wait for one cache. However many there are, a
// change of the cache wakes one goroutine, which looks at the first of each
// namespace: they are ordered by the resource version that they wait for. Deletions
// have none, and are looked at in turn, some at each change.
type backlog struct {
	session *session
	cache   cache

	// guarded by parking.mu
	byRV      map[string]*byRV // by namespace
	deletions []*note
	turn      int  // the deletion to be looked at next
	watched   bool // by a goroutine
}

// How many deletions are looked at after one change, and how long it takes at most
// until the next are where there are more.
const (
	someDeletions = 64
	nextDeletions = 10 * time.Millisecond
)

// errNextDeletions ends a wait.
var errNextDeletions = errors.New("time for the next deletions")

// add lets a note wait that lags. It is called under parking.mu.
func (b *backlog) add(n *note) {
	n.in = b
	w := &n.writes[0]
	if w.gone != nil {
		n.index = len(b.deletions)
		b.deletions = append(b.deletions, n)
		return
	}
	if b.byRV == nil {
		b.byRV = make(map[string]*byRV)
	}
	h := b.byRV[w.about.Namespace]
	if h == nil {
		h = new(byRV)
		b.byRV[w.about.Namespace] = h
	}
	heap.Push(h, n)
}

// remove takes a note out. It is called under parking.mu.
func (b *backlog) remove(n *note) {
	n.in = nil
	w := &n.writes[0]
	if w.gone != nil {
		last := len(b.deletions) - 1
		b.deletions[n.index] = b.deletions[last]
		b.deletions[n.index].index = n.index
		b.deletions[last] = nil
		b.deletions = b.deletions[:last]
		return
	}
	h := b.byRV[w.about.Namespace]
	heap.Remove(h, n.index)
	if h.Len() == 0 {
		delete(b.byRV, w.about.Namespace)
	}
}

// watch waits for the cache as long as any note does.
func (b *backlog) watch() {
	for {
		done, err := b.wait()
		switch {
		case done:
			return
		case err != nil && !errors.Is(err, errNextDeletions):
			b.giveUp(err)
			return
		}
	}
}

// wait returns when no note is left, which it reports, or when it is to be called
// again.
func (b *backlog) wait() (done bool, err error) {
	ctx, timed := b.session.ctx, b.many()
	if timed {
		limited, cancel := context.WithTimeoutCause(ctx, nextDeletions, errNextDeletions)
		defer cancel()
		ctx = limited
	}
	err = b.cache.wait(ctx, func() bool {
		done = b.look()
		return done || !timed && b.many()
	})
	return done, err
}

// many reports whether one look does not see all deletions.
func (b *backlog) many() bool {
	b.session.parking.mu.Lock()
	defer b.session.parking.mu.Unlock()
	return len(b.deletions) > someDeletions
}

// look lets go of the notes that need not wait any longer, and reports whether none
// is left.
func (b *backlog) look() bool {
	s := b.session
	s.parking.mu.Lock()
	defer s.parking.mu.Unlock()
	for _, h := range b.byRV {
		for h.Len() > 0 && (*h)[0].writes[0].seen() {
			n := (*h)[0]
			b.remove(n)
			s.await(n)
		}
	}
	for range min(someDeletions, len(b.deletions)) {
		if b.turn >= len(b.deletions) {
			b.turn = 0
		}
		if n := b.deletions[b.turn]; n.writes[0].seen() {
			b.remove(n)
			s.await(n)
		} else {
			b.turn++
		}
		if len(b.deletions) == 0 {
			break
		}
	}
	b.watched = len(b.byRV) > 0 || len(b.deletions) > 0
	return !b.watched
}

// giveUp lets go of all notes, because the cache will not catch up soon.
func (b *backlog) giveUp(err error) {
	s := b.session
	s.parking.mu.Lock()
	left := append([]*note(nil), b.deletions...)
	for _, h := range b.byRV {
		left = append(left, *h...)
	}
	b.watched = false
	s.parking.mu.Unlock()
	for _, n := range left {
		s.giveUp(n, err)
	}
}

// byRV is a heap of notes by the resource version that their first write waits for.
type byRV []*note

func (h byRV) Len() int { return len(h) }

func (h byRV) Less(i, j int) bool {
	order, err := object.CompareRV(h[i].writes[0].rv, h[j].writes[0].rv)
	return err == nil && order < 0
}

func (h byRV) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *byRV) Push(n any) {
	n.(*note).index = len(*h)
	*h = append(*h, n.(*note))
}

func (h *byRV) Pop() any {
	last := len(*h) - 1
	n := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return n
}
