package workqueue

import (
	"time"

	"github.com/millrace-dev/millrace/failure"
)

// An Order, a Recorder and a RateLimiter are the user's. A panic of theirs must not
// leave the queue locked, nor lose a key that was handed out or is to be tried again:
// it is noted in the Status, and the queue goes on without what they should have done.

// ordered is an Order that cannot panic. It is called under the queue's lock.
type ordered[K comparable] struct {
	order Order[K]
	count *counts
}

func (o *ordered[K]) call(f func()) (ok bool) {
	var err error
	defer func() {
		if err != nil {
			o.count.orderFaults++
			o.count.hookFailure = err.Error()
			ok = false
		}
	}()
	defer failure.Recover("the order", &err)
	f()
	return true
}

func (o *ordered[K]) push(w Waiting[K])  { o.call(func() { o.order.Push(w) }) }
func (o *ordered[K]) touch(w Waiting[K]) { o.call(func() { o.order.Touch(w) }) }
func (o *ordered[K]) remove(key K)       { o.call(func() { o.order.Remove(key) }) }

// pop finds the item whose turn it is, which is nil where there is none of that key. It reports false
// where the order has not said whose.
func (o *ordered[K]) pop(items *table[K]) (it *item[K], ok bool) {
	ok = o.call(func() {
		key := o.order.Pop()
		it = items.find(key, items.hash(key)) // panics if it can be no key
	})
	return it, ok
}

// recording is a Recorder that cannot panic. It is called without the lock.
type recording struct {
	recorder Recorder
	failed   func(err error)
}

func (r *recording) caught(err *error) {
	if *err != nil {
		r.failed(*err)
	}
}

func (r *recording) queueDuration(d time.Duration) {
	var err error
	defer r.caught(&err)
	defer failure.Recover("the recorder", &err)
	r.recorder.QueueDuration(d)
}

func (r *recording) workDuration(d time.Duration) {
	var err error
	defer r.caught(&err)
	defer failure.Recover("the recorder", &err)
	r.recorder.WorkDuration(d)
}

func (r *recording) unregister() {
	var err error
	defer r.caught(&err)
	defer failure.Recover("the recorder", &err)
	r.recorder.Unregister()
}

// limiterFault is how long a key waits where the limiter has not said it.
const limiterFault = time.Second

// limited is a RateLimiter that cannot panic. It is called without the lock.
type limited[K comparable] struct {
	limiter RateLimiter[K]
	failed  func(err error)
}

func (l *limited[K]) call(f func()) (ok bool) {
	var err error
	defer func() {
		if err != nil {
			l.failed(err)
			ok = false
		}
	}()
	defer failure.Recover("the rate limiter", &err)
	f()
	return true
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

// NumRequeues implements RateLimiter.
func (l *limited[K]) NumRequeues(key K) (n int) {
	l.call(func() { n = l.limiter.NumRequeues(key) })
	return n
}

// hookFailed notes a panic of the recorder or of the limiter.
func (q *Queue[K]) hookFailed(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.counts.hookFailure = err.Error()
}
