package workqueue

import (
	"time"

	"github.com/millrace-dev/millrace/failure"
)

// An Order and a Recorder are the user's. A panic of theirs must not leave the queue
// locked, nor lose a key that was handed out: it is noted in the Status, and the
// queue goes on without what they should have done.

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

// pop reports false where the order has not said whose turn it is.
func (o *ordered[K]) pop() (key K, ok bool) {
	ok = o.call(func() { key = o.order.Pop() })
	return key, ok
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

// hookFailed notes a panic of the recorder.
func (q *Queue[K]) hookFailed(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.counts.hookFailure = err.Error()
}
