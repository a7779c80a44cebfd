package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/millrace-dev/millrace/metrics"
	millrace "github.com/millrace-dev/millrace/workqueue"
)

// Queue is a Millrace work queue as a priorityqueue.PriorityQueue, which includes
// workqueue.TypedRateLimitingInterface. Create it with [NewQueue].
type Queue[T comparable] struct {
	queue *millrace.Queue[T]
	ended context.Context // done after ShutDown
	end   context.CancelFunc
}

var _ priorityqueue.PriorityQueue[string] = (*Queue[string])(nil)

// The back-off for queues without a limiter, as in controller-runtime's priority queue.
const (
	firstDelay = 5 * time.Millisecond
	maxDelay   = 1000 * time.Second
)

// NewQueue can be used as controller.Options.NewQueue. Unless name is empty, the queue's metrics
// appear in controller-runtime's metrics.Registry, under the names in metrics.WorkQueues prefixed with
// millrace_. With a nil limiter, the queue backs off per key from 5 ms to 1000 s.
func NewQueue[T comparable](name string, limiter workqueue.TypedRateLimiter[T]) workqueue.TypedRateLimitingInterface[T] {
	if limiter == nil {
		limiter = workqueue.NewTypedItemExponentialFailureRateLimiter[T](firstDelay, maxDelay)
	}
	opts := millrace.Options[T]{Name: name, RateLimiter: limiter}
	if name != "" {
		opts.Metrics = figures()
	}
	q := &Queue[T]{queue: millrace.New(opts)}
	q.ended, q.end = context.WithCancel(context.Background())
	return q
}

// figures returns the metrics of this process's queues, and registers them if necessary.
func figures() millrace.MetricsProvider {
	queues := metrics.NewWorkQueues(metrics.WorkQueueOptions{})
	err := prometheus.WrapRegistererWithPrefix("millrace_", ctrlmetrics.Registry).Register(queues)
	if registered, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		return registered.ExistingCollector.(*metrics.WorkQueues)
	}
	if err != nil {
		utilruntime.HandleError(fmt.Errorf("register the metrics of Millrace's work queues: %w", err))
	}
	return queues
}

// Status returns the queue's state and counters.
func (q *Queue[T]) Status() millrace.Status { return q.queue.Status() }

// Contents returns up to n keys in each state, for inspecting a stuck queue.
func (q *Queue[T]) Contents(n int) millrace.Contents[T] { return q.queue.Contents(n) }

// Add adds a key to the queue.
func (q *Queue[T]) Add(key T) { q.queue.Add(key) }

// AddAfter adds a key after a delay.
func (q *Queue[T]) AddAfter(key T, after time.Duration) { q.queue.AddAfter(key, after) }

// AddRateLimited adds a key after the limiter's delay.
func (q *Queue[T]) AddRateLimited(key T) { q.queue.AddRateLimited(key) }

// AddWithOpts adds keys with the given options. If both After and RateLimited are set, the shorter delay
// applies, as in controller-runtime's priority queue.
func (q *Queue[T]) AddWithOpts(o priorityqueue.AddOpts, keys ...T) {
	opts := millrace.AddOptions{After: o.After, RateLimited: o.RateLimited, Priority: ptr.Deref(o.Priority, 0)}
	if !o.RateLimited || o.After <= 0 {
		q.queue.AddWith(opts, keys...)
		return
	}
	opts.RateLimited = false
	q.queue.AddWith(opts, keys...)
	opts.After, opts.RateLimited = 0, true
	q.queue.AddWith(opts, keys...) // the earlier of two delays wins
}

// Get waits for a key. It reports shutdown once the queue has shut down.
func (q *Queue[T]) Get() (key T, shutdown bool) {
	key, err := q.queue.Get(context.Background())
	return key, err != nil
}

// GetWithPriority is like Get, and also returns the key's priority.
func (q *Queue[T]) GetWithPriority() (key T, priority int, shutdown bool) {
	if key, shutdown = q.Get(); !shutdown {
		priority, _ = q.queue.RunningPriority(key)
	}
	return key, priority, shutdown
}

// Done marks a key as done. If the key is not in progress, Done merely reports that to
// utilruntime.ErrorHandlers.
func (q *Queue[T]) Done(key T) {
	if _, running := q.queue.RunningPriority(key); !running {
		utilruntime.HandleError(fmt.Errorf("work queue %q: Done(%v) called for a key that is not in progress", q.queue.Name(), key))
		return
	}
	q.queue.Done(key)
}

// Forget resets a key's back-off.
func (q *Queue[T]) Forget(key T) { q.queue.Forget(key) }

// NumRequeues returns the number of failures that the limiter has counted for a key.
func (q *Queue[T]) NumRequeues(key T) int { return q.queue.NumRequeues(key) }

// Len returns the number of queued keys.
func (q *Queue[T]) Len() int { return q.queue.Len() }

// ShutDown shuts the queue down immediately. It drops queued and delayed keys.
func (q *Queue[T]) ShutDown() {
	q.queue.ShutDown()
	q.end()
}

// ShutDownWithDrain stops accepting keys. It returns once all queued keys have been handed out and
// processed, or ShutDown is called.
func (q *Queue[T]) ShutDownWithDrain() { _ = q.queue.Drain(q.ended) }

// ShuttingDown reports whether the queue has stopped accepting keys.
func (q *Queue[T]) ShuttingDown() bool { return q.queue.ShuttingDown() }
