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
	// folded across what is not about one object.
	Compact bool
}

// DeltaFIFO is a queue of deltas in arrival order with one consumer, which takes all
// of them at once: Pop swaps two slices, whatever is in them.
//
//	entries:  [A added][B added][bookmark][A updated][C deleted]
//	newest:    A → 3, C → 4, with Options.Compact only
//
// What is not an Added, Updated or Deleted is a barrier: compaction never folds across
// one, so that newest has what came behind the last of them.
//
// A whole list (Replaced) supersedes the list of its namespace that is still queued, so at
// most one waits however long the consumer is blocked. The changes between the two stay: they
// are bounded by WaitForRoom, and the consumer applies them in the same batch as the newer list,
// which tells of every deletion that they do not.
//
// A delta that was folded or superseded leaves a hole in entries; when there are more holes
// than deltas, they close.
type DeltaFIFO struct {
	compact bool
	wake    chan struct{} // holds one token while there may be something to pop
	taken   chan struct{} // holds one token after something was popped

	mu      sync.Mutex // guards all below; nothing is called while it is held
	entries []Delta
	busy    bool               // the consumer has not come back since it took a batch
	oldest  time.Time          // when the first delta since the last batch was added
	holes   int                // entries without a type
	newest  map[object.Key]int // position in entries of the last delta of each object
	lists   map[string]int     // position in entries of the last list of each namespace
	lost    *Part              // of the Drop that is queued; nil if none is
	late    int                // late deltas that were added since the last batch
	merged  uint64
}

// maxReuse bounds the buffer that is used again, so that one burst does not
// hold its memory for ever: 4096 entries of about 200 bytes.
const maxReuse = 4096

// MaxAhead is how many deltas a producer that cares may be ahead of the consumer;
// see WaitForRoom. More would not make batches any cheaper.
const MaxAhead = maxReuse

// New returns an empty queue.
func New(opts Options) *DeltaFIFO {
	f := &DeltaFIFO{compact: opts.Compact, wake: make(chan struct{}, 1), taken: make(chan struct{}, 1), lists: make(map[string]int)}
	if opts.Compact {
		f.newest = make(map[object.Key]int)
	}
	return f
}

// Add queues d behind all that is queued. It stamps d.Queued of a delta that came at a known
// time.
func (f *DeltaFIFO) Add(d Delta) {
	if d.Queued.IsZero() && !d.Received.IsZero() {
		d.Queued = time.Now()
	}
	f.mu.Lock()
	if len(f.entries) == 0 {
		if f.oldest = d.Queued; f.oldest.IsZero() {
			f.oldest = time.Now()
		}
	}
	if d.Late {
		f.late++
	}
	if !f.joined(&d) && (!f.compact || f.fold(&d)) {
		if d.Type == Replaced {
			f.supersede(&d)
		}
		f.entries = append(f.entries, d)
	}
	f.mu.Unlock()
	signal(f.wake)
}

// fold lets the delta of the same object that is still queued disappear in favour of
// d, where a consumer that sees only d misses nothing but a state in between. The
// place that d takes is the later one, so that arrival order holds. A late delta takes
// no place: it lacks the RV. Fold reports false if d is not to be queued, since it tells
// of an earlier state than that delta.
func (f *DeltaFIFO) fold(d *Delta) bool {
	if !d.ofObject() {
		f.forget()
		return true
	}
	at, ok := f.newest[d.Key]
	if ok {
		prior := &f.entries[at]
		same := prior.Object.GetUID() == d.Object.GetUID()
		if d.Late && same && !d.Outdates(prior.Object) {
			f.merged++
			return false
		}
		if prior.Type != Deleted && same && !d.Late {
			if prior.Type == Added && d.Type == Updated {
				d.Type = Added
			}
			f.drop(at)
		}
	}
	f.newest[d.Key] = len(f.entries)
	return true
}

// joined reports whether d is a Drop that one which waits has taken in: each goes through the whole cache.
func (f *DeltaFIFO) joined(d *Delta) bool {
	switch {
	case d.Type != Drop:
		return false
	case f.lost == nil || f.lost.Lost.Total() != d.Part.Lost.Total():
		f.lost = d.Part
		return false
	}
	f.lost.Lost = f.lost.Lost.Union(d.Part.Lost)
	return true
}

// supersede drops the list that d makes needless, and notes where d will be. Late changes behind
// that list go too: whether they are news can only be told from it.
func (f *DeltaFIFO) supersede(d *Delta) {
	if at, waits := f.lists[d.Key.Namespace]; waits {
		for n := at; f.late > 0 && n < len(f.entries); n++ {
			if e := &f.entries[n]; e.Late && (d.Key.Namespace == "" || e.Key.Namespace == d.Key.Namespace) {
				*e = Delta{}
				f.merged++
				f.holes++
			}
		}
		d.NewHistory = d.NewHistory || f.entries[at].NewHistory // the cache still holds what was before it
		f.drop(at)
	}
	f.lists[d.Key.Namespace] = len(f.entries)
}

// NewHistoryQueued reports whether a list of a namespace with Delta.NewHistory is queued. The next
// list of that namespace supersedes it, and must not take back known objects either.
func (f *DeltaFIFO) NewHistoryQueued(namespace string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, waits := f.lists[namespace]
	return waits && f.entries[at].NewHistory
}

// drop makes a hole of an entry.
func (f *DeltaFIFO) drop(at int) {
	f.entries[at] = Delta{}
	f.merged++
	if f.holes++; f.holes > len(f.entries)/2+minHoles {
		f.close()
	}
}

// forget empties newest.
func (f *DeltaFIFO) forget() { f.newest = emptied(f.newest) }

// emptied returns m without entries. A map keeps the room that it once had, and takes as long
// to clear, so a large one is replaced.
func emptied[K comparable](m map[K]int) map[K]int {
	if len(m) > maxReuse {
		return make(map[K]int)
	}
	clear(m)
	return m
}

// minHoles spares a short queue from being gone through at every second delta.
const minHoles = 64

// close closes the holes. It costs each delta that is added a constant time at most,
// since there are more holes than deltas.
func (f *DeltaFIFO) close() {
	kept := f.entries[:0]
	for at := range f.entries {
		d := f.entries[at]
		if d.Type == 0 {
			continue
		}
		if last, ok := f.newest[d.Key]; ok && last == at && d.ofObject() {
			f.newest[d.Key] = len(kept)
		}
		if last, ok := f.lists[d.Key.Namespace]; ok && last == at && d.Type == Replaced {
			f.lists[d.Key.Namespace] = len(kept)
		}
		kept = append(kept, d)
	}
	clear(f.entries[len(kept):])
	f.entries, f.holes = kept, 0
}

// WaitForRoom waits while MaxAhead deltas or more are queued, so that memory for
// what the consumer has not seen yet is bounded. It is for producers that can be
// held up, which are watches: their server waits with them. It fails only with the
// cause of ctx.
func (f *DeltaFIFO) WaitForRoom(ctx context.Context) error {
	for f.Len() >= MaxAhead {
		if err := wait(ctx, f.taken); err != nil {
			return err
		}
		signal(f.taken) // for another one that waits
	}
	return nil
}

// signal leaves a token for the one that waits for it, or comes to.
func signal(token chan struct{}) {
	select {
	case token <- struct{}{}:
	default:
	}
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

// Pop waits until something is queued and takes all of it, in order. The slice
// reuse, if not nil, becomes the queue's next buffer: a consumer hands back the
// deltas of the batch before, and no memory is allocated. It fails only with the
// cause of ctx.
func (f *DeltaFIFO) Pop(ctx context.Context, reuse []Delta) ([]Delta, error) {
	if cap(reuse) > maxReuse {
		reuse = nil
	}
	clear(reuse)
	for {
		if deltas := f.take(reuse); deltas != nil {
			return deltas, nil
		}
		if err := wait(ctx, f.wake); err != nil {
			return nil, err
		}
	}
}

// TryPop is Pop without waiting: it returns nil where nothing is queued.
func (f *DeltaFIFO) TryPop() []Delta { return f.take(nil) }

func (f *DeltaFIFO) take(reuse []Delta) []Delta {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.busy = len(f.entries) > 0; !f.busy {
		return nil
	}
	f.lost = nil
	if f.holes > 0 {
		f.close()
	}
	taken := f.entries
	f.entries = reuse[:0]
	f.forget()
	f.lists = emptied(f.lists)
	f.late = 0
	signal(f.taken)
	return taken
}

// Len is how many deltas wait. A number that keeps growing means that the
// consumer does not keep up with the server.
func (f *DeltaFIFO) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.entries) - f.holes
}

// Idle reports whether nothing waits, and the consumer has come back for more than the batch that it took.
func (f *DeltaFIFO) Idle() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.entries) == 0 && !f.busy
}

// Merged counts the deltas that compaction folded into later ones, and the lists that later
// ones superseded.
func (f *DeltaFIFO) Merged() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.merged
}

// Oldest is when the first delta of the queue came, or one that was folded into
// another; zero when nothing waits. Its age is how far the consumer lags.
func (f *DeltaFIFO) Oldest() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.entries) == 0 {
		return time.Time{}
	}
	return f.oldest
}
