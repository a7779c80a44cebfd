package deltafifo

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/millrace-dev/millrace/object"
)

// Options configure a DeltaFIFO. The zero value keeps every delta.
type Options struct {
	// Compact merges a delta into the queued one for the same object and UID, so a lagging consumer receives
	// only the newest state of each object. Deletions and re-creations are never merged away, and deltas are
	// never merged across one that does not concern a single object.
	Compact bool
}

// DeltaFIFO is a queue of deltas in arrival order. Its single consumer takes all of them at once, which is
// cheap because Pop just swaps two slices.
//
//	entries:  [A added][B added][bookmark][A updated][C deleted]
//	newest:    A → 3, C → 4, with Options.Compact only
//
// Deltas other than Added, Updated and Deleted are barriers. Compaction never merges across a barrier,
// and newest covers only the deltas after the last one.
//
// A list (Replaced) supersedes a queued list for the same namespace, so at most one is queued however long
// the consumer blocks. The changes between the two lists stay queued. WaitForRoom limits their number, and
// the consumer applies them in the same batch as the newer list, which reveals any deletion they do not
// include.
//
// A merged or superseded delta leaves a hole in entries. The holes are removed once they outnumber the
// deltas.
type DeltaFIFO struct {
	compact bool
	wake    chan struct{} // holds a token while there may be something to pop
	taken   chan struct{} // holds a token after a pop

	mu      sync.Mutex // guards the fields below; never held while calling other code
	entries []Delta
	busy    bool               // the consumer has taken a batch and not called Pop again
	oldest  time.Time          // when the first delta since the last batch was added
	holes   int                // entries without a type
	newest  map[object.Key]int // index in entries of each object's last delta
	lists   map[string]int     // index in entries of each namespace's last list
	lost    *Part              // the queued Drop's Part; nil if none
	late    int                // late deltas added since the last batch
	renewed []string           // namespaces whose list with NewHistory is in the batch that the consumer has taken
	merged  uint64
}

// maxReuse limits the reused buffer to 4096 entries of about 200 bytes, so that a single burst does not pin
// memory forever.
const maxReuse = 4096

// MaxAhead is how many deltas a cooperative producer may be ahead of the consumer; see WaitForRoom. Larger
// batches would not be any cheaper to process.
const MaxAhead = maxReuse

// New returns an empty queue.
func New(opts Options) *DeltaFIFO {
	f := &DeltaFIFO{compact: opts.Compact, wake: make(chan struct{}, 1), taken: make(chan struct{}, 1), lists: make(map[string]int)}
	if opts.Compact {
		f.newest = make(map[object.Key]int)
	}
	return f
}

// Add appends d to the queue. It sets d.Queued if d.Received is known.
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

// fold removes the queued delta for the same object if a consumer that receives only d misses only an
// intermediate state. Its caller appends d, which preserves arrival order. A late delta does not replace
// anything, because it has no RV. fold returns false if d is older than the queued delta and must not be
// queued.
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

// joined merges d into a queued Drop, if any, because each Drop scans the whole cache. It reports whether d
// was merged.
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

// supersede drops the list that d replaces, and records d's position. It also drops the late changes after
// that list, because without the list there is no telling whether they are new.
func (f *DeltaFIFO) supersede(d *Delta) {
	if at, waits := f.lists[d.Key.Namespace]; waits {
		for n := at; f.late > 0 && n < len(f.entries); n++ {
			if e := &f.entries[n]; e.Late && (d.Key.Namespace == "" || e.Key.Namespace == d.Key.Namespace) {
				*e = Delta{}
				f.merged++
				f.holes++
			}
		}
		d.NewHistory = d.NewHistory || f.entries[at].NewHistory // the cache still has the state before it
		f.drop(at)
	}
	f.lists[d.Key.Namespace] = len(f.entries)
}

// NewHistoryQueued reports whether a list for the namespace with Delta.NewHistory is queued, or was taken by the
// consumer, which has not called Pop again. The consumer may still have the state before it, so the next list must
// not reuse known objects either.
func (f *DeltaFIFO) NewHistoryQueued(namespace string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, waits := f.lists[namespace]
	return waits && f.entries[at].NewHistory || slices.Contains(f.renewed, namespace)
}

// drop turns an entry into a hole.
func (f *DeltaFIFO) drop(at int) {
	f.entries[at] = Delta{}
	f.merged++
	if f.holes++; f.holes > len(f.entries)/2+minHoles {
		f.close()
	}
}

// forget empties newest.
func (f *DeltaFIFO) forget() { f.newest = emptied(f.newest) }

// emptied returns m without entries. A large map is replaced, because maps never shrink and the time to clear
// one depends on the largest size it ever had.
func emptied[K comparable](m map[K]int) map[K]int {
	if len(m) > maxReuse {
		return make(map[K]int)
	}
	clear(m)
	return m
}

// minHoles keeps a short queue from removing its holes on every other Add.
const minHoles = 64

// close removes the holes. Its amortized cost per added delta is constant, because it runs only if there are
// more holes than deltas.
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

// WaitForRoom waits while MaxAhead or more deltas are queued, which limits the memory used by deltas the
// consumer has not taken yet. Producers that can be delayed, such as watches, should call it, so that the
// server is slowed down too. The only possible error is the cause of ctx.
func (f *DeltaFIFO) WaitForRoom(ctx context.Context) error {
	waited := false
	for f.Len() >= MaxAhead {
		if err := wait(ctx, f.taken); err != nil {
			return err
		}
		waited = true
	}
	if waited {
		signal(f.taken) // for another waiter
	}
	return nil
}

// signal leaves a token for the waiter.
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

// Pop waits until the queue is not empty and takes all deltas, in order. If reuse is not nil, it becomes the
// queue's next buffer, so a consumer can pass in the previous batch to avoid allocations. The only possible
// error is the cause of ctx.
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

// TryPop is like Pop, but returns nil if the queue is empty.
func (f *DeltaFIFO) TryPop() []Delta { return f.take(nil) }

func (f *DeltaFIFO) take(reuse []Delta) []Delta {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.renewed = f.renewed[:0]
	if f.busy = len(f.entries) > 0; !f.busy {
		return nil
	}
	f.lost = nil
	if f.holes > 0 {
		f.close()
	}
	for namespace, at := range f.lists {
		if f.entries[at].NewHistory {
			f.renewed = append(f.renewed, namespace)
		}
	}
	taken := f.entries
	f.entries = reuse[:0]
	f.forget()
	f.lists = emptied(f.lists)
	f.late = 0
	signal(f.taken)
	return taken
}

// Len returns the number of queued deltas. If it keeps growing, the consumer is not keeping up with the
// server.
func (f *DeltaFIFO) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.entries) - f.holes
}

// Idle reports whether the queue is empty and the consumer has called Pop again after its last
// batch.
func (f *DeltaFIFO) Idle() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.entries) == 0 && !f.busy
}

// Merged returns the number of deltas merged by compaction plus the number of superseded lists.
func (f *DeltaFIFO) Merged() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.merged
}

// Oldest returns the time when the oldest queued delta, or one merged into it, was added, or zero if the
// queue is empty. That delta's age is the consumer's lag.
func (f *DeltaFIFO) Oldest() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.entries) == 0 {
		return time.Time{}
	}
	return f.oldest
}
