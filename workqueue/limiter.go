package workqueue

import (
	"sync"
	"time"

	"github.com/millrace-dev/millrace/internal/jitter"
)

// RateLimiter determines how long a key waits before a retry. Workers call it concurrently, outside the
// queue's lock. A panic or runtime.Goexit is recorded in the queue's Status, and the key waits for a second.
type RateLimiter[K comparable] interface {
	// When counts a failure of the key and returns how long to wait.
	When(key K) time.Duration

	// Forget resets the key's count. It is called when the key has succeeded or will not be retried. Limiters
	// that count failures per key must keep the count until Forget is called.
	Forget(key K)

	// NumRequeues returns the number of failures counted for the key.
	NumRequeues(key K) int
}

// Forget resets a key's back-off. Call it after a success, or if the key will not be retried. It must be
// called for every key added with rate limiting; otherwise the limiter remembers the key forever. Forget does
// not cancel a delayed add; see [Queue.ForgetAndCancel].
func (q *Queue[K]) Forget(key K) {
	q.limiter.Forget(key)
}

// ForgetAndCancel resets a key's back-off, cancels its delayed add, and reports whether there was one. Use it
// when the object is gone and there is nothing to retry.
func (q *Queue[K]) ForgetAndCancel(key K) bool {
	q.limiter.Forget(key)
	return q.Cancel(key)
}

// NumRequeues returns the number of failures counted by the limiter for the key since it was last forgotten. It
// returns -1 if a user's limiter has not returned for a second.
func (q *Queue[K]) NumRequeues(key K) int {
	return q.limiter.NumRequeues(key)
}

// failures counts failures by key.
type failures[K comparable] struct {
	mu     sync.Mutex
	counts map[K]int
	most   int // largest number of keys since counts was allocated
}

// add counts a failure and returns the number of earlier ones.
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
	if len(f.counts) == 0 && f.most > keptRoom { // a map never shrinks
		f.counts, f.most = nil, 0
	}
}

// NumRequeues implements RateLimiter.
func (f *failures[K]) NumRequeues(key K) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[key]
}

// Defaults of [ExponentialOptions].
const (
	DefaultBase   = 5 * time.Millisecond
	DefaultMax    = 5 * time.Minute
	DefaultJitter = 0.2
)

// ExponentialOptions configure an Exponential limiter. The zero value is a queue's default.
//
// The first retry comes after 5 ms, because most failures are conflicts or caches that lag briefly. Each
// further failure doubles the delay; the 17th reaches 5 minutes. The maximum is a compromise: n keys that
// keep failing cause n retries every 5 minutes, 33 a second for 10,000 keys, and once the problem is fixed,
// every key recovers within 5 minutes. Jitter shortens each delay by up to a fifth, so that keys that failed
// at the same time, for example in an outage, are not all retried at the same time.
//
// By default there is no limit across all keys. With a shared token bucket, each key waits for all other
// keys' retries: at 10 a second, the last of 10,000 failing keys waits 16 minutes for its first retry, even
// if its own problem is short-lived. The number of workers limits concurrent retries anyway.
type ExponentialOptions struct {
	// Base is the delay after the first failure. Default DefaultBase.
	Base time.Duration
	// Max is the longest delay. Default DefaultMax.
	Max time.Duration
	// Jitter is the random fraction of each delay, from 0 to 1: a delay d becomes a random value between
	// d*(1-Jitter) and d. Zero means DefaultJitter, negative means none.
	Jitter float64
}

// Exponential doubles a key's delay with each failure.
type Exponential[K comparable] struct {
	failures[K]
	base, max time.Duration
	jitter    float64
}

// NewExponential returns a limiter that doubles a key's delay with each failure.
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
	// Shift only if the result stays below max.
	if before < 63 && e.base <= e.max>>before {
		wait = e.base << before
	}
	return less(wait, e.jitter)
}

// less shortens a delay by a random amount, at most the given fraction of it.
func less(wait time.Duration, fraction float64) time.Duration {
	if fraction <= 0 {
		return wait
	}
	return wait - jitter.Below(time.Duration(fraction*float64(wait)))
}

// FastSlowOptions configure a FastSlow limiter. Zero fields mean no delay and no fast attempts, so set
// all three fields.
type FastSlowOptions struct {
	// Fast is the delay after each of the first FastAttempts failures.
	Fast time.Duration
	// Slow is the delay after later failures.
	Slow time.Duration
	// FastAttempts is the number of failures that get the Fast delay.
	FastAttempts int
}

// FastSlow retries a key quickly a few times and then slowly.
type FastSlow[K comparable] struct {
	failures[K]
	opts FastSlowOptions
}

// NewFastSlow returns a limiter that retries a key quickly a few times and then slowly.
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
