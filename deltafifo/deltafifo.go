package deltafifo

import (
	"context"
	"sync"
	"time"

	"github.com/millrace-dev/millrace/object"
)

// Options configure a DeltaFIFO. The zero value keeps every delta.
type Options struct {
	// Compact folds a delta into the one still queued for the same object and
	// UID, so that a consumer that lags finds only the newest state of each
	// object. Deletions and re-creations are never folded away, and nothing is
	// folded across a Replaced, a Sync, a Bookmark or a Trim.
	Compact bool
}

// DeltaFIFO is a queue of deltas in arrival order with one consumer.
//
//	entries:  [A added][B added][A updated][bookmark][C deleted]
//	position:     1        2         3          4         5
//	byKey:      A → 3, via A's next from 1; B → 2   (up to the last barrier)
//
// PopBatch takes everything and is what an informer uses: it swaps slices and
// touches no key. Pop takes one object's deltas; the view by key that it needs
// (first and last position of each key since the last barrier) is built when
// Pop is first called, or from the start with Options.Compact.
//
// A barrier (Replaced, Sync, Bookmark, Trim) is about all objects: Pop never takes an
// entry from behind one, and compaction never folds across one.
type DeltaFIFO[T object.Object] struct {
	compact bool
	wake    chan struct{} // holds one token while there may be something to pop
	taken   chan struct{} // holds one token after something was popped

	mu      sync.Mutex // guards all below; nothing is called while it is held
	entries []Delta[T]
	base    uint64 // position of entries[0]; positions start at 1
	live    int    // entries that are not gone
	rv      string // the last promise handed out
	heldTo  uint64 // no new promise before the entry at this position has left
	merged  uint64

	keyed bool
	byKey map[object.Key]uint64 // position of the key's last entry since the last barrier
}

// maxReuse bounds the buffer that is used again, so that one burst does not
// hold its memory for ever: 4096 entries of about 200 bytes.
const maxReuse = 4096

// MaxAhead is how many deltas a producer that cares may be ahead of the consumer;
// see WaitForRoom. More would not make batches any cheaper.
const MaxAhead = maxReuse

// New returns an empty queue.
func New[T object.Object](opts Options) *DeltaFIFO[T] {
	f := &DeltaFIFO[T]{compact: opts.Compact, wake: make(chan struct{}, 1), taken: make(chan struct{}, 1), base: 1}
	if opts.Compact {
		f.keyed, f.byKey = true, make(map[object.Key]uint64)
	}
	return f
}

// Add queues d behind all that is queued. It stamps d.Queued where somebody will
// want to know: for a delta that came at a known time, and for the first in the
// queue, whose age is the queue's.
func (f *DeltaFIFO[T]) Add(d Delta[T]) {
	if d.Queued.IsZero() && !d.Received.IsZero() {
		d.Queued = time.Now()
	}
	f.mu.Lock()
	if d.Queued.IsZero() && f.live == 0 {
		d.Queued = time.Now()
	}
	f.entries = append(f.entries, d)
	f.live++
	if f.keyed {
		f.index(len(f.entries) - 1)
	}
	f.mu.Unlock()
	signal(f.wake)
}

// WaitForRoom waits while MaxAhead deltas or more are queued, so that memory for
// what the consumer has not seen yet is bounded. It is for producers that can be
// held up, which are watches: their server waits with them. It fails only with the
// cause of ctx.
func (f *DeltaFIFO[T]) WaitForRoom(ctx context.Context) error {
	for f.Len() >= MaxAhead {
		if err := wait(ctx, f.taken); err != nil {
			return err
		}
		signal(f.taken) // for another one who waits
	}
	return nil
}

// signal leaves a token, for whoever waits for it or comes to.
func signal(token chan struct{}) {
	select {
	case token <- struct{}{}:
	default:
	}
}

// index enters entries[i] into the view by key, folding its predecessor into
// it where that is allowed.
func (f *DeltaFIFO[T]) index(i int) {
	d := &f.entries[i]
	if !d.ofObject() {
		clear(f.byKey)
		return
	}
	position := f.base + uint64(i)
	if last, ok := f.byKey[d.Key]; ok {
		prior := &f.entries[last-f.base]
		if f.compact && foldable(prior, d) {
			f.fold(prior, d, position)
		} else {
			prior.next = position
		}
	}
	f.byKey[d.Key] = position
}

// foldable reports whether a consumer that sees only d misses nothing but
// intermediate states of one object.
func foldable[T object.Object](prior, d *Delta[T]) bool {
	return prior.Type != Deleted && prior.Object.GetUID() == d.Object.GetUID()
}

// fold lets prior disappear in favour of d. The place that d takes is the
// later one, so that arrival order holds; the promise is held back until d
// itself leaves, because prior's change is not applied before.
func (f *DeltaFIFO[T]) fold(prior, d *Delta[T], position uint64) {
	if prior.Type == Added && d.Type == Updated {
		d.Type = Added
	}
	var none T
	prior.gone, prior.Object = true, none
	f.heldTo = position
	f.live--
	f.merged++
}

// PopBatch waits until something is queued and takes all of it. The slice
// reuse, if not nil, becomes the queue's next buffer: a consumer hands back
// the Deltas of the batch before and no memory is allocated. It fails only
// with the cause of ctx.
func (f *DeltaFIFO[T]) PopBatch(ctx context.Context, reuse []Delta[T]) (Batch[T], error) {
	if cap(reuse) > maxReuse {
		reuse = nil
	}
	clear(reuse)
	for {
		if b, ok := f.takeAll(reuse); ok {
			return b, nil
		}
		if err := wait(ctx, f.wake); err != nil {
			return Batch[T]{}, err
		}
	}
}

// TryPopBatch is PopBatch without waiting: ok is false when nothing is queued.
func (f *DeltaFIFO[T]) TryPopBatch() (b Batch[T], ok bool) {
	return f.takeAll(nil)
}

// wait waits for a token.
func wait(ctx context.Context, token <-chan struct{}) error {
	select {
	case <-token:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (f *DeltaFIFO[T]) takeAll(reuse []Delta[T]) (Batch[T], bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.live == 0 {
		return Batch[T]{}, false
	}
	taken := f.entries
	for i := range taken {
		if rv := taken[i].RV; rv != "" {
			f.rv = rv
		}
	}
	if f.live < len(taken) {
		taken = present(taken)
	}
	f.base += uint64(len(f.entries))
	f.entries, f.live = reuse[:0], 0
	if f.keyed {
		clear(f.byKey)
	}
	signal(f.taken)
	return Batch[T]{Deltas: taken, RV: f.rv}, true
}

// present drops the entries that are gone, in place.
func present[T object.Object](entries []Delta[T]) []Delta[T] {
	kept := entries[:0]
	for i := range entries {
		if !entries[i].gone {
			kept = append(kept, entries[i])
		}
	}
	clear(entries[len(kept):])
	return kept
}

// Pop waits until something is queued and takes the oldest entry, with the
// later ones of the same object up to the next barrier. It fails only with the
// cause of ctx.
func (f *DeltaFIFO[T]) Pop(ctx context.Context) (Batch[T], error) {
	for {
		if b, ok := f.takeKey(); ok {
			return b, nil
		}
		if err := wait(ctx, f.wake); err != nil {
			return Batch[T]{}, err
		}
	}
}

func (f *DeltaFIFO[T]) takeKey() (Batch[T], bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.live == 0 {
		return Batch[T]{}, false
	}
	if !f.keyed {
		f.keyed, f.byKey = true, make(map[object.Key]uint64)
		for i := range f.entries {
			f.index(i)
		}
	}
	f.leave() // so that the head is an entry that is present
	var deltas []Delta[T]
	for at := f.base; at != 0; {
		d := &f.entries[at-f.base]
		next := d.next
		out := *d
		out.next = 0
		deltas = append(deltas, out)
		var none T
		d.gone, d.Object, d.Items = true, none, nil
		f.live--
		if next == 0 && d.ofObject() && f.byKey[d.Key] == at {
			delete(f.byKey, d.Key)
		}
		at = next
	}
	f.leave()
	if f.live > 0 {
		signal(f.wake)
	}
	signal(f.taken)
	return Batch[T]{Deltas: deltas, RV: f.rv}, true
}

// leave drops the entries at the head that are gone and moves the promise
// over them, unless one of them was folded into an entry that still waits.
func (f *DeltaFIFO[T]) leave() {
	n := 0
	last := ""
	for n < len(f.entries) && f.entries[n].gone {
		if rv := f.entries[n].RV; rv != "" {
			last = rv
		}
		n++
		if f.base+uint64(n) > f.heldTo && last != "" {
			f.rv = last
		}
	}
	f.base += uint64(n)
	f.entries = f.entries[n:]
}

// Len is how many deltas wait. A number that keeps growing means that the
// consumer does not keep up with the server.
func (f *DeltaFIFO[T]) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.live
}

// Merged counts the deltas that compaction folded into later ones.
func (f *DeltaFIFO[T]) Merged() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.merged
}

// Oldest is when the delta at the head was queued; zero when nothing waits, or
// where a delta of unknown time came to the head by Pop. Its age is how far the
// consumer lags.
func (f *DeltaFIFO[T]) Oldest() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.entries {
		if !f.entries[i].gone {
			return f.entries[i].Queued
		}
	}
	return time.Time{}
}
