package workqueue

import (
	"time"

	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/internal/patience"
	"github.com/millrace-dev/millrace/internal/trusted"
)

// Orders, MetricsProviders and RateLimiters are user code. If they panic or call runtime.Goexit, the queue
// must not stay locked, or lose a worker or a key. Each call therefore runs in its own goroutine; only trusted
// Metrics receive durations directly. A failure is recorded in the Status, and the queue continues without a
// result.

// ordered calls a user's Order safely. The caller must hold the queue's lock.
type ordered[K comparable] struct {
	order Order[K]
	count *counts
}

func (o *ordered[K]) call(f func()) (ok bool) {
	err := failure.Apart("the order", func() error { f(); return nil })
	if err != nil {
		o.count.orderFaults++
		o.count.hookFailure = err.Error()
	}
	return err == nil
}

func (o *ordered[K]) push(w Waiting[K])  { o.call(func() { o.order.Push(w) }) }
func (o *ordered[K]) touch(w Waiting[K]) { o.call(func() { o.order.Touch(w) }) }
func (o *ordered[K]) remove(key K)       { o.call(func() { o.order.Remove(key) }) }

// pop returns the item for the order's next key, or nil if no item has that key. ok is false if the order
// failed.
func (o *ordered[K]) pop(items *table[K]) (it *item[K], ok bool) {
	ok = o.call(func() {
		key := o.order.Pop()
		it = items.find(key, items.hash(key)) // panics if the key is not hashable
	})
	return it, ok
}

// guardedMetrics calls a user's Metrics and records failures. The caller must not hold the lock.
type guardedMetrics struct {
	metrics Metrics
	trusted bool
	failed  func(err error)
}

func (m *guardedMetrics) call(f func()) {
	if err := failure.Apart("the metrics", func() error { f(); return nil }); err != nil {
		m.failed(err)
	}
}

func (m *guardedMetrics) queueDuration(d time.Duration) {
	if m.trusted {
		m.metrics.QueueDuration(d)
		return
	}
	m.call(func() { m.metrics.QueueDuration(d) })
}

func (m *guardedMetrics) workDuration(d time.Duration) {
	if m.trusted {
		m.metrics.WorkDuration(d)
		return
	}
	m.call(func() { m.metrics.WorkDuration(d) })
}

func (m *guardedMetrics) unregister() { m.call(m.metrics.Unregister) }

// register creates the queue's Metrics, if the provider returns one.
func (q *Queue[K]) register(metrics MetricsProvider) {
	var r Metrics
	err := failure.Apart("the metrics", func() error { r = metrics.Register(q.name, q.Status); return nil })
	if err != nil {
		q.hookFailed(err)
	} else if r != nil {
		q.metrics = &guardedMetrics{metrics: r, trusted: trusted.Is(r), failed: q.hookFailed}
	}
}

// limiterFault is a key's delay if the limiter fails.
const limiterFault = time.Second

// limited calls a user's RateLimiter safely. The caller must not hold the lock.
type limited[K comparable] struct {
	limiter RateLimiter[K]
	failed  func(err error)
	asked   patience.Call
}

func (l *limited[K]) call(f func()) (ok bool) {
	err := failure.Apart("the rate limiter", func() error { f(); return nil })
	if err != nil {
		l.failed(err)
	}
	return err == nil
}

// When implements RateLimiter.
func (l *limited[K]) When(key K) (wait time.Duration) {
	if !l.call(func() { wait = l.limiter.When(key) }) {
		return limiterFault
	}
	return wait
}

// Forget implements RateLimiter.
func (l *limited[K]) Forget(key K) { l.call(func() { l.limiter.Forget(key) }) }

// limiterPatience limits the duration of a call to NumRequeues, which is needed to find out why a queue is stuck.
const limiterPatience = time.Second

// NumRequeues implements RateLimiter. It returns -1 if the limiter blocks.
func (l *limited[K]) NumRequeues(key K) int {
	n := 0
	if !l.asked.Within(limiterPatience, func() { l.call(func() { n = l.limiter.NumRequeues(key) }) }) {
		return -1
	}
	return n
}

// hookFailed records a failure in the metrics or the limiter.
func (q *Queue[K]) hookFailed(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.counts.hookFailure = err.Error()
}
