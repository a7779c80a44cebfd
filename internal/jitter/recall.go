package jitter

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Recall makes a client whose responses come from a recording behave like the recorded client. It
// carries the random waits and lifetimes of the recorded client, and the signals that client received
// from sources other than the server. It also identifies the client to the recording. With the zero
// value, durations are random. A Recall is safe for concurrent use.
type Recall struct {
	number atomic.Uint64 // the client's number; 0 until Number is called

	mu       sync.Mutex    // guards the fields below
	next     time.Time     // time of the client's next request; zero if unknown
	lifetime time.Duration // lifetime of the most recently requested watch; 0 if unknown
	probed   bool          // whether the client's next request was a probe
	known    bool          // whether probed is known
	deaf     func()        // notifies the client that its watch delivers nothing; may be nil
}

type recallKey struct{}

// WithRecall returns a context that makes requests use r.
func WithRecall(ctx context.Context, r *Recall) context.Context {
	return context.WithValue(ctx, recallKey{}, r)
}

// RecallOf returns the Recall in ctx, or nil. Most methods may be called on a nil Recall.
func RecallOf(ctx context.Context) *Recall {
	r, _ := ctx.Value(recallKey{}).(*Recall)
	return r
}

// numbers is the last number assigned to a client.
var numbers atomic.Uint64

// Number returns a number that uniquely identifies the client in this process, or 0 if r is nil.
func (r *Recall) Number() uint64 {
	if r == nil {
		return 0
	}
	if r.number.Load() == 0 {
		r.number.CompareAndSwap(0, numbers.Add(1))
	}
	return r.number.Load()
}

// Tell sets the time of the client's next request, and the lifetime of the watch it is requesting now.
// Zero means unknown.
func (r *Recall) Tell(next time.Time, lifetime time.Duration) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next, r.lifetime = next, lifetime
}

// TellProbed sets whether the client's next request after the current one was a probe for the server's
// progress, sent because the watch had gone silent or deaf. known is false if the recording is too short
// to tell.
func (r *Recall) TellProbed(probed, known bool) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.probed, r.known = probed, known
}

// Probed returns the arguments of the last call to [Recall.TellProbed].
func (r *Recall) Probed() (probed, known bool) {
	if r == nil {
		return false, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.probed, r.known
}

// OnDeaf sets the function to call when the recording reaches the point at which the recorded client
// found that its watch delivered nothing.
func (r *Recall) OnDeaf(deaf func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deaf = deaf
}

// Deaf calls the function passed to [Recall.OnDeaf].
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

// Below returns the duration to add to a wait, in [0, d). If the time of the next request is known, the
// wait then ends as close to that time as possible; otherwise the duration is random.
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

// Lifetime returns the recorded lifetime of the watch, or drawn if it is unknown.
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
