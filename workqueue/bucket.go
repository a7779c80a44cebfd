package workqueue

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// DefaultMaxDelay is the longest wait that a Bucket hands out by default.
const DefaultMaxDelay = 30 * time.Second

// BucketOptions configure a Bucket.
type BucketOptions struct {
	// Limit is how many retries a second there may be, over all keys. Zero is
	// 10.
	Limit rate.Limit
	// Burst is how many may come at once. Zero is 100.
	Burst int
	// MaxDelay is the longest wait. A bucket owes each caller a place in one
	// line, so without a bound the line grows to minutes when thousands of keys
	// fail at once. A key that would have to wait longer takes no place and waits
	// between half of MaxDelay and all of it: the rate gives way, not the wait.
	// Zero is DefaultMaxDelay, negative is no bound.
	MaxDelay time.Duration
}

// Bucket is a token bucket shared by all keys. A key has one place in its line at a time: the
// adds of a key that waits merge, and take no further place. It counts no failures: combine it
// with a limiter that does, see MaxOf.
type Bucket[K comparable] struct {
	bucket   *rate.Limiter
	maxDelay time.Duration

	mu     sync.Mutex // makes one step of looking at a place and leaving it, and guards all below
	places map[K]time.Time
	line   []place[K] // the places, the earliest first
}

// place is when the turn of a key comes.
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
	r.CancelAt(now) // gives back the whole place only while nobody has taken one behind it
	return less(b.maxDelay, 0.5)
}

// take notes the place of a key. It is called under mu.
func (b *Bucket[K]) take(key K, at time.Time) {
	if b.places == nil {
		b.places = make(map[K]time.Time)
	}
	b.places[key] = at
	b.line = append(b.line, place[K]{key, at})
}

// advance drops the places whose turn has come. It is called under mu.
func (b *Bucket[K]) advance(now time.Time) {
	for len(b.line) > 0 && !b.line[0].at.After(now) {
		delete(b.places, b.line[0].key)
		b.line[0] = place[K]{}
		b.line = b.line[1:]
	}
	if len(b.line) == 0 { // neither a slice nor a map shrinks
		b.line, b.places = nil, nil
	}
}

// Forget implements RateLimiter. It does nothing: the place was taken.
func (b *Bucket[K]) Forget(K) {}

// NumRequeues implements RateLimiter. It returns zero.
func (b *Bucket[K]) NumRequeues(K) int { return 0 }

// MaxOf waits for the longest time that any of several limiters asks for.
type MaxOf[K comparable] struct {
	limiters []RateLimiter[K]
}

// NewMaxOf creates a limiter that waits for the longest time that any of the given
// ones asks for. Without any it does not wait.
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

// NumRequeues implements RateLimiter. It returns the highest count of all.
func (m *MaxOf[K]) NumRequeues(key K) int {
	var n int
	for _, l := range m.limiters {
		n = max(n, l.NumRequeues(key))
	}
	return n
}

// MaxWait cuts the waits of another limiter short.
type MaxWait[K comparable] struct {
	RateLimiter[K]
	max time.Duration
}

// NewMaxWait creates a limiter that waits as the given one says, but no longer
// than max.
func NewMaxWait[K comparable](limiter RateLimiter[K], max time.Duration) *MaxWait[K] {
	return &MaxWait[K]{RateLimiter: limiter, max: max}
}

// When implements RateLimiter.
func (m *MaxWait[K]) When(key K) time.Duration {
	return min(m.RateLimiter.When(key), m.max)
}
