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

// Queue is a Millrace work queue as a priorityqueue.PriorityQueue, and with it a
// workqueue.TypedRateLimitingInterface. Make it with NewQueue.
type Queue[T comparable] struct {
	queue *millrace.Queue[T]
	ended context.Context // done when ShutDown has been called
	end   context.CancelFunc
}

var _ priorityqueue.PriorityQueue[string] = (*Queue[string])(nil)

// Back-off of a queue without a limiter, as that of a stock priority queue.
const (
	firstDelay = 5 * time.Millisecond
	maxDelay   = 1000 * time.Second
)

// NewQueue fits controller.Options.NewQueue. Its figures are in
// controller-runtime's metrics.Registry, by the names that metrics.WorkQueues
// tells with millrace_ before them, unless the name is empty. A nil limiter
// backs off by key from 5 ms to 1000 s.
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

// figures returns what exports the queues of this process; the registry has it.
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

// Contents returns at most n keys of each kind, to look into a queue that is
// stuck.
func (q *Queue[T]) Contents(n int) millrace.Contents[T] { return q.queue.Contents(n) }

// Add asks for the key to be handed out as soon as its turn comes.
func (q *Queue[T]) Add(key T) { q.queue.Add(key) }

// AddAfter is Add after a wait.
func (q *Queue[T]) AddAfter(key T, after time.Duration) { q.queue.AddAfter(key, after) }

// AddRateLimited is Add after the wait that the limiter says.
func (q *Queue[T]) AddRateLimited(key T) { q.queue.AddRateLimited(key) }

// AddWithOpts is Add with options. With both After and RateLimited the shorter
// wait counts, as in a stock priority queue.
func (q *Queue[T]) AddWithOpts(o priorityqueue.AddOpts, keys ...T) {
	opts := millrace.AddOptions{After: o.After, RateLimited: o.RateLimited, Priority: ptr.Deref(o.Priority, 0)}
	if !o.RateLimited || o.After <= 0 {
		q.queue.AddWith(opts, keys...)
		return
	}
	opts.RateLimited = false
	q.queue.AddWith(opts, keys...)
	opts.After, opts.RateLimited = 0, true
	q.queue.AddWith(opts, keys...) // of two delays the earlier wins
}

// Get waits for a key. When the queue is shut down it says so instead.
func (q *Queue[T]) Get() (key T, shutdown bool) {
	key, err := q.queue.Get(context.Background())
	return key, err != nil
}

// GetWithPriority is Get, with the priority that the key had.
func (q *Queue[T]) GetWithPriority() (key T, priority int, shutdown bool) {
	if key, shutdown = q.Get(); !shutdown {
		priority, _ = q.queue.RunningPriority(key)
	}
	return key, priority, shutdown
}

// Done ends the work on a key. One that is not being worked on is reported to
// utilruntime.ErrorHandlers and otherwise passed over.
func (q *Queue[T]) Done(key T) {
	if _, running := q.queue.RunningPriority(key); !running {
		utilruntime.HandleError(fmt.Errorf("work queue %q: Done(%v) of a key that is not being worked on", q.queue.Name(), key))
		return
	}
	q.queue.Done(key)
}

// Forget drops the back-off of a key.
func (q *Queue[T]) Forget(key T) { q.queue.Forget(key) }

// NumRequeues returns how many failures of the key the limiter has counted.
func (q *Queue[T]) NumRequeues(key T) int { return q.queue.NumRequeues(key) }

// Len returns how many keys wait to be handed out.
func (q *Queue[T]) Len() int { return q.queue.Len() }

// ShutDown ends the queue at once: keys that wait or are delayed are dropped.
func (q *Queue[T]) ShutDown() {
	q.queue.ShutDown()
	q.end()
}

// ShutDownWithDrain takes no more keys, and returns when all that waited have
// been handed out and all work is done, or when ShutDown is called.
func (q *Queue[T]) ShutDownWithDrain() { _ = q.queue.Drain(q.ended) }

// ShuttingDown reports whether the queue takes no more keys.
func (q *Queue[T]) ShuttingDown() bool { return q.queue.ShuttingDown() }
