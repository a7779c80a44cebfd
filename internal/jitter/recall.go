package jitter

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Recall tells a client that is answered from a recording what it drew when it was
// recorded, and what it was told by others than the server, so that it comes back when it came
// back, and asks for what it asked for. It tells the recording which client asks. The zero value
// knows nothing: draws are then those of the package. It is safe for concurrent use.
type Recall struct {
	number atomic.Uint64 // of the client, once it was asked for

	mu       sync.Mutex    // guards the rest
	next     time.Time     // when the client came next; zero if unknown
	lifetime time.Duration // of the watch that it asked for last; 0 if unknown
	probed   bool          // the client's next request was for where the server is
	known    bool          // whether it was is known
	deaf     func()        // tells the client that its watch is deaf; nil where it need not know
}

type recallKey struct{}

// WithRecall returns a context whose requests tell r.
func WithRecall(ctx context.Context, r *Recall) context.Context {
	return context.WithValue(ctx, recallKey{}, r)
}

// RecallOf returns what WithRecall put into ctx, nil if nothing. A nil Recall may be told,
// and asked.
func RecallOf(ctx context.Context) *Recall {
	r, _ := ctx.Value(recallKey{}).(*Recall)
	return r
}

// numbers is how many clients have a number.
var numbers atomic.Uint64

// Number tells a client from all others of the process. It is 0 for none.
func (r *Recall) Number() uint64 {
	if r == nil {
		return 0
	}
	if r.number.Load() == 0 {
		r.number.CompareAndSwap(0, numbers.Add(1))
	}
	return r.number.Load()
}

// Tell takes the moment of the client's next request, and how long the watch that it asks
// for now was to last. The zero of each is unknown.
func (r *Recall) Tell(next time.Time, lifetime time.Duration) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next, r.lifetime = next, lifetime
}

// TellProbed takes whether the client's next request, after the one that it makes now, was for
// where the server is, which it asks behind a watch that was mute or deaf. Known is whether the
// recording goes on so far.
func (r *Recall) TellProbed(probed, known bool) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.probed, r.known = probed, known
}

// Probed returns what TellProbed was told last.
func (r *Recall) Probed() (probed, known bool) {
	if r == nil {
		return false, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.probed, r.known
}

// OnDeaf has deaf called when the recording has come to where the client was told that its watch
// is deaf.
func (r *Recall) OnDeaf(deaf func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deaf = deaf
}

// Deaf calls the function given to OnDeaf.
func (r *Recall) Deaf() {
	if r == nil {
		return
	}
	r.mu.Lock()
	deaf := r.deaf
	r.mu.Unlock()
	if deaf != nil {
		deaf()
	}
}

// Below draws what is added to a wait, from 0 up to, but not including, d. Where the next
// request is known, it is what comes nearest to that.
func (r *Recall) Below(wait, d time.Duration) time.Duration {
	drawn := Below(d)
	if r == nil || d <= 0 {
		return drawn
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next.IsZero() {
		return drawn
	}
	return min(max(time.Until(r.next)-wait, 0), d-1)
}

// Lifetime returns how long the watch was to last, and drawn if that is unknown.
func (r *Recall) Lifetime(drawn time.Duration) time.Duration {
	if r == nil {
		return drawn
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lifetime == 0 {
		return drawn
	}
	return r.lifetime
}
