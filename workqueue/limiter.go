package workqueue

import (
	"sync"
	"time"

	"github.com/millrace-dev/millrace/internal/jitter"
)

// RateLimiter says how long a key waits before it is tried again. Limiters are
// called by many workers at once and outside the queue's lock. A panic or a
// runtime.Goexit is noted in the Status of the queue; the key then waits for a second.
type RateLimiter[K comparable] interface {
	// When counts a failure of the key and returns how long to wait.
	When(key K) time.Duration

	// Forget says that the key succeeded, or will not be tried again. A
	// limiter that counts per key keeps the count until then.
	Forget(key K)

	// NumRequeues returns how many failures of the key are counted.
	NumRequeues(key K) int
}

// Forget drops the back-off of a key: after a success, or when the key will
// not be tried again. It must be called for each key that was ever added
// rate-limited, or the limiter remembers it for ever. A pending delayed add
// stays; see ForgetAndCancel.
func (q *Queue[K]) Forget(key K) {
	q.limiter.Forget(key)
}

// ForgetAndCancel drops the back-off of a key and its delayed add, and reports
// whether there was one: the object is gone, there is nothing to retry.
func (q *Queue[K]) ForgetAndCancel(key K) bool {
	q.limiter.Forget(key)
	return q.Cancel(key)
}

// NumRequeues returns how many failures of the key the limiter has counted
// since it was last forgotten.
func (q *Queue[K]) NumRequeues(key K) int {
	return q.limiter.NumRequeues(key)
}

// failures counts failures by key.
type failures[K comparable] struct {
	mu     sync.Mutex
	counts map[K]int
	most   int // keys since counts was made
}

// add counts a failure and returns how many came before.
func (f *failures[K]) add(key K) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.counts == nil {
		f.counts = make(map[K]int)
	}
	before := f.counts[key]
	f.counts[key] = before + 1
	f.most = max(f.most, len(f.counts))
	return before
}

// Forget implements RateLimiter.
func (f *failures[K]) Forget(key K) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.counts, key)
	if len(f.counts) == 0 && f.most > keptRoom { // a map does not shrink
		f.counts, f.most = nil, 0
	}
}

// NumRequeues implements RateLimiter.
func (f *failures[K]) NumRequeues(key K) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[key]
}

// The defaults of ExponentialOptions.
const (
	DefaultBase   = 5 * time.Millisecond
	DefaultMax    = 5 * time.Minute
	DefaultJitter = 0.2
)

// ExponentialOptions configure an Exponential limiter. The zero value is what a
// queue uses by default.
//
// The first retry comes after 5 ms: most failures are conflicts and caches that
// lag a moment behind, and are over by then. Each further one doubles the wait,
// and the 17th reaches 5 minutes. The ceiling is a balance: with n keys that
// fail for good there are n retries in 5 minutes, 33 a second for 10,000 keys,
// and when the cause is gone no key stays behind for more than 5 minutes. The
// jitter takes up to a fifth off each wait, so that keys which failed together,
// as in an outage, do not come back together.
//
// There is no limit over all keys by default. A shared token bucket makes each
// key wait for the retries of all others: at 10 a second the last of 10,000
// failing keys waits 16 minutes for its first retry, however short its trouble.
// How many retries run at once is bounded by the number of workers.
type ExponentialOptions struct {
	// Base is the wait after the first failure. Zero is DefaultBase.
	Base time.Duration
	// Max is the longest wait. Zero is DefaultMax.
	Max time.Duration
	// Jitter is the fraction of each wait, from 0 to 1, that is random: a wait
	// d is drawn from d*(1-Jitter) to d. Zero is DefaultJitter, negative none.
	Jitter float64
}

// Exponential doubles the wait of a key with each of its failures.
type Exponential[K comparable] struct {
	failures[K]
	base, max time.Duration
	jitter    float64
}

// NewExponential creates a limiter that doubles the wait of a key with each of
// its failures.
func NewExponential[K comparable](opts ExponentialOptions) *Exponential[K] {
	e := &Exponential[K]{base: opts.Base, max: opts.Max, jitter: opts.Jitter}
	if e.base <= 0 {
		e.base = DefaultBase
	}
	if e.max <= 0 {
		e.max = DefaultMax
	}
	if e.jitter == 0 {
		e.jitter = DefaultJitter
	}
	e.jitter = min(max(e.jitter, 0), 1)
	return e
}

// When implements RateLimiter.
func (e *Exponential[K]) When(key K) time.Duration {
	before := e.add(key)
	wait := e.max
	// Shifting is safe only where the result stays below the ceiling.
	if before < 63 && e.base <= e.max>>before {
		wait = e.base << before
	}
	return less(wait, e.jitter)
}

// less takes a random part, of at most the given fraction, off a wait.
func less(wait time.Duration, fraction float64) time.Duration {
	if fraction <= 0 {
		return wait
	}
	return wait - jitter.Below(time.Duration(fraction*float64(wait)))
}

// FastSlowOptions configure a FastSlow limiter. All three are needed: zeros
// mean no wait and no fast attempts.
type FastSlowOptions struct {
	// Fast is the wait after each of the first failures.
	Fast time.Duration
	// Slow is the wait after the others.
	Slow time.Duration
	// FastAttempts is how many failures wait Fast.
	FastAttempts int
}

// FastSlow retries a key quickly a few times and then slowly.
type FastSlow[K comparable] struct {
	failures[K]
	opts FastSlowOptions
}

// NewFastSlow creates a limiter that retries a key quickly a few times and then
// slowly.
func NewFastSlow[K comparable](opts FastSlowOptions) *FastSlow[K] {
	return &FastSlow[K]{opts: opts}
}

// When implements RateLimiter.
func (f *FastSlow[K]) When(key K) time.Duration {
	if f.add(key) < f.opts.FastAttempts {
		return f.opts.Fast
	}
	return f.opts.Slow
}
