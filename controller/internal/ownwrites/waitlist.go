package ownwrites

import (
	"container/heap"
	"context"
	"errors"
	"time"

	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/sharedinformer"
)

// waitlist contains the parked notes waiting for one cache. Each cache change wakes a single goroutine,
// however many notes there are. Notes are ordered by resource version, so the goroutine only has to check
// the first one in each namespace. Deletions have no version, so the goroutine checks a few of them per
// change, in rotation.
type waitlist struct {
	barrier *Barrier
	cache   cache

	// guarded by Barrier.mu
	byRV      map[string]*byRV // by namespace
	deletions []*note
	turn      int  // the next deletion to check
	watched   bool // a goroutine is running watch
}

// At each cache change, up to someDeletions deletions are checked. If there are more, the next ones are
// checked within nextDeletions.
const (
	someDeletions = 64
	nextDeletions = 10 * time.Millisecond
)

// lookAgain is how often a cache is checked that is not synced because a list keeps failing.
const lookAgain = 50 * time.Millisecond

// errNextDeletions interrupts a wait in order to check more deletions.
var errNextDeletions = errors.New("time to check more deletions")

// add adds a lagging note. The caller holds Barrier.mu.
func (l *waitlist) add(n *note) {
	n.in = l
	w := &n.writes[0]
	if w.gone != nil {
		n.index = len(l.deletions)
		l.deletions = append(l.deletions, n)
		return
	}
	if l.byRV == nil {
		l.byRV = make(map[string]*byRV)
	}
	h := l.byRV[w.about.Namespace]
	if h == nil {
		h = new(byRV)
		l.byRV[w.about.Namespace] = h
	}
	heap.Push(h, n)
}

// remove removes a note. The caller holds Barrier.mu.
func (l *waitlist) remove(n *note) {
	n.in = nil
	w := &n.writes[0]
	if w.gone != nil {
		last := len(l.deletions) - 1
		l.deletions[n.index] = l.deletions[last]
		l.deletions[n.index].index = n.index
		l.deletions[last] = nil
		l.deletions = l.deletions[:last]
		return
	}
	h := l.byRV[w.about.Namespace]
	heap.Remove(h, n.index)
	if h.Len() == 0 {
		delete(l.byRV, w.about.Namespace)
	}
}

// watch keeps waiting for the cache until the list is empty.
func (l *waitlist) watch() {
	for {
		done, err := l.wait()
		switch {
		case done:
			return
		case err == nil, errors.Is(err, errNextDeletions):
		case l.barrier.ctx.Err() == nil && !errors.Is(err, sharedinformer.ErrStopped):
			// A list, perhaps that of another namespace, has been failing for so long that each wait ends at once.
			select {
			case <-time.After(lookAgain):
			case <-l.barrier.ctx.Done():
			}
		default:
			l.giveUp(err)
			return
		}
	}
}

// wait returns true if no notes are left, and false if it has to be called again.
func (l *waitlist) wait() (done bool, err error) {
	ctx, timed := l.barrier.ctx, l.many()
	if timed {
		limited, cancel := context.WithTimeoutCause(ctx, nextDeletions, errNextDeletions)
		defer cancel()
		ctx = limited
	}
	err = l.cache.wait(ctx, func() bool {
		done = l.look()
		return done || !timed && l.many()
	})
	return done, err
}

// many reports whether there are more deletions than look checks at once.
func (l *waitlist) many() bool {
	l.barrier.mu.Lock()
	defer l.barrier.mu.Unlock()
	return len(l.deletions) > someDeletions
}

// look passes on the notes whose writes the cache has seen, and reports whether the list is now empty.
func (l *waitlist) look() bool {
	b := l.barrier
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range l.byRV {
		for h.Len() > 0 && (*h)[0].writes[0].seen() {
			n := (*h)[0]
			l.remove(n)
			b.await(n)
		}
	}
	for range min(someDeletions, len(l.deletions)) {
		if l.turn >= len(l.deletions) {
			l.turn = 0
		}
		if n := l.deletions[l.turn]; n.writes[0].seen() {
			l.remove(n)
			b.await(n)
		} else {
			l.turn++
		}
		if len(l.deletions) == 0 {
			break
		}
	}
	l.watched = len(l.byRV) > 0 || len(l.deletions) > 0
	return !l.watched
}

// giveUp releases all notes, because the cache will not catch up any time soon.
func (l *waitlist) giveUp(err error) {
	b := l.barrier
	b.mu.Lock()
	left := append([]*note(nil), l.deletions...)
	for _, h := range l.byRV {
		left = append(left, *h...)
	}
	l.watched = false
	b.mu.Unlock()
	for _, n := range left {
		b.giveUp(n, err)
	}
}

// byRV is a heap of notes ordered by the resource version of their first write.
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
