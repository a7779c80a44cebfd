package workqueue

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// DefaultMaxDelay is the default for BucketOptions.MaxDelay.
const DefaultMaxDelay = 30 * time.Second

// BucketOptions configure a Bucket.
type BucketOptions struct {
	// Limit is the number of retries per second across all keys. Default 10.
	Limit rate.Limit
	// Burst is the number of retries allowed at once. Default 100.
	Burst int
	// MaxDelay is the longest wait. All keys share one line, so without a limit the wait can grow to minutes
	// when thousands of keys fail at once. A key that would wait longer than MaxDelay does not join the line.
	// Instead it waits a random time between MaxDelay/2 and MaxDelay, so the rate may be exceeded but the
	// wait is limited. Zero means DefaultMaxDelay, negative means no limit.
	MaxDelay time.Duration
}

// Bucket is a token bucket shared by all keys. A key has at most one slot in its line: adding a waiting key
// again merges the adds and does not take a second slot. It does not count failures; to combine it with a
// limiter that does, see [MaxOf].
type Bucket[K comparable] struct {
	bucket   *rate.Limiter
	maxDelay time.Duration

	mu     sync.Mutex // guards the fields below, and makes looking up and giving up a slot atomic
	places map[K]time.Time
	line   []place[K] // the slots, earliest first
}

// place is a key's slot in the line.
type place[K comparable] struct {
	key K
	at  time.Time
}

// NewBucket creates a token bucket shared by all keys.
func NewBucket[K comparable](opts BucketOptions) *Bucket[K] {
	if opts.Limit <= 0 {
		opts.Limit = 10
	}
	if opts.Burst <= 0 {
		opts.Burst = 100
	}
	if opts.MaxDelay == 0 {
		opts.MaxDelay = DefaultMaxDelay
	}
	return &Bucket[K]{bucket: rate.NewLimiter(opts.Limit, opts.Burst), maxDelay: opts.MaxDelay}
}

// When implements RateLimiter.
func (b *Bucket[K]) When(key K) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.advance(now)
	if at, has := b.places[key]; has {
		return at.Sub(now)
	}
	r := b.bucket.ReserveN(now, 1)
	wait := r.DelayFrom(now)
	if b.maxDelay < 0 || wait <= b.maxDelay {
		if wait > 0 {
			b.take(key, now.Add(wait))
		}
		return wait
	}
	r.CancelAt(now) // frees the slot completely only if no later one was taken
	return less(b.maxDelay, 0.5)
}

// take records a key's slot. The caller must hold mu.
func (b *Bucket[K]) take(key K, at time.Time) {
	if b.places == nil {
		b.places = make(map[K]time.Time)
	}
	b.places[key] = at
	b.line = append(b.line, place[K]{key, at})
}

// advance removes the slots whose turn has come. The caller must hold mu.
func (b *Bucket[K]) advance(now time.Time) {
	for len(b.line) > 0 && !b.line[0].at.After(now) {
		delete(b.places, b.line[0].key)
		b.line[0] = place[K]{}
		b.line = b.line[1:]
	}
	if len(b.line) == 0 { // slices and maps never shrink
		b.line, b.places = nil, nil
	}
}

// Forget implements RateLimiter. It does nothing: the key keeps its slot.
func (b *Bucket[K]) Forget(K) {}

// NumRequeues implements RateLimiter. It returns zero.
func (b *Bucket[K]) NumRequeues(K) int { return 0 }

// MaxOf combines several limiters. Each key waits for the longest of their delays.
type MaxOf[K comparable] struct {
	limiters []RateLimiter[K]
}

// NewMaxOf returns a limiter whose delay is the longest of the given limiters' delays, or zero if there
// are no limiters.
func NewMaxOf[K comparable](limiters ...RateLimiter[K]) *MaxOf[K] {
	return &MaxOf[K]{limiters: slices.Clone(limiters)}
}

// When implements RateLimiter. Every limiter counts the failure.
func (m *MaxOf[K]) When(key K) time.Duration {
	var wait time.Duration
	for _, l := range m.limiters {
		wait = max(wait, l.When(key))
	}
	return wait
}

// Forget implements RateLimiter. Every limiter forgets the key.
func (m *MaxOf[K]) Forget(key K) {
	for _, l := range m.limiters {
		l.Forget(key)
	}
}

// NumRequeues implements RateLimiter. It returns the highest count of any limiter.
func (m *MaxOf[K]) NumRequeues(key K) int {
	var n int
	for _, l := range m.limiters {
		n = max(n, l.NumRequeues(key))
	}
	return n
}

// MaxWait caps another limiter's delays.
type MaxWait[K comparable] struct {
	RateLimiter[K]
	max time.Duration
}

// NewMaxWait returns a limiter that caps the given limiter's delays at max.
func NewMaxWait[K comparable](limiter RateLimiter[K], max time.Duration) *MaxWait[K] {
	return &MaxWait[K]{RateLimiter: limiter, max: max}
}

// When implements RateLimiter.
func (m *MaxWait[K]) When(key K) time.Duration {
	return min(m.RateLimiter.When(key), m.max)
}
