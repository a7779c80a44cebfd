package workqueue

import "time"

// DefaultFairEvery is the fairness of a queue that asks for nothing else: one
// Get in eight takes the key that has waited longest. So urgent keys keep at
// least seven eighths of the workers, and the key with n older ones before it
// is handed out within 8*(n+1) Gets.
const DefaultFairEvery = 8

// Options say how a queue behaves. The zero value is a FIFO with the default
// back-off and without metrics.
type Options[K comparable] struct {
	// Name tells queues apart in metrics, errors and panics.
	Name string

	// RateLimiter says how long AddRateLimited waits. Nil is NewExponential with
	// its defaults. A limiter belongs to one queue, unless keys of several queues
	// are meant to share their back-off.
	RateLimiter RateLimiter[K]

	// Order decides which waiting key is handed out next. Nil hands out the
	// highest priority first and, within a priority, first come first served.
	Order Order[K]

	// FairEvery is the n of the fairness rule: every n-th Get takes the key
	// that has waited longest, whatever Order and priorities say. One is strictly
	// first come first served; zero or less is DefaultFairEvery. It cannot be
	// switched off: without it a key could wait for ever (L30).
	FairEvery int

	// Metrics receives how long keys waited and how long work took, and
	// learns of the queue's Status. Nil costs nothing.
	Metrics MetricsProvider

	// Timestamps makes the queue note when a key was added and handed out, so
	// that Status and Contents can tell ages. It costs a reading of the clock
	// in each of Add, Get and Done, some 20-100 ns each. With Metrics it is
	// always on.
	Timestamps bool
}

// AddOptions say how AddWith adds. The zero value is an immediate add with
// priority zero.
type AddOptions struct {
	// Priority: a higher one is handed out first. Adds of one key that merge
	// take the highest of theirs. Priorities may be negative.
	Priority int

	// KeepPriority makes an add between a key's Get and its Done take at least
	// the priority with which the key was handed out, as a retry should.
	KeepPriority bool

	// After is how long to wait before the key may be handed out.
	After time.Duration

	// RateLimited counts a failure of the key and waits as long as the
	// limiter says, or After if that is longer.
	RateLimited bool
}

// Waiting is a waiting key, as an Order sees it.
type Waiting[K comparable] struct {
	Key      K
	Priority int
}

// Order decides which waiting key is handed out next. It holds a set of keys:
// the queue never pushes a key that the order has.
//
// The queue calls its order under a lock, one call at a time. So an order needs no
// lock of its own and must be quick. It must not call the queue, which would leave
// it locked for ever. A panic or a runtime.Goexit is noted in the Status, and the queue
// hands out the key that has waited longest. The queue itself knows which one that is;
// see Options.FairEvery.
type Order[K comparable] interface {
	// Push adds a key that begins to wait.
	Push(w Waiting[K])

	// Touch says that a waiting key was added again. Its priority may have
	// risen.
	Touch(w Waiting[K])

	// Pop removes and returns the key whose turn it is. It is called only while a
	// key waits. If it returns a key that does not wait, the queue hands out the
	// one that has waited longest and counts an OrderFault in its Status.
	Pop() K

	// Remove removes a key that the queue has handed out past the order, or
	// dropped.
	Remove(key K)
}

// MetricsProvider makes the Metrics of each queue. Counters and gauges are read from the
// status function when they are wanted; durations are pushed. Package metrics has one for
// Prometheus.
type MetricsProvider interface {
	// Register is called once by New. The status function may be called at
	// any time, from any goroutine, also after Unregister. If Register panics or
	// calls runtime.Goexit, the Status says so and the queue has no metrics.
	Register(name string, status func() Status) Metrics
}

// Metrics receives the durations of one queue. Its methods are called by the
// workers, outside the queue's lock and concurrently. A panic or a runtime.Goexit is
// noted in the Status of the queue.
type Metrics interface {
	// QueueDuration is how long a key waited from the Add, or from the moment
	// when its delay was over, to the Get.
	QueueDuration(d time.Duration)

	// WorkDuration is how long a key took from Get to Done.
	WorkDuration(d time.Duration)

	// Unregister is called once, when the queue has been shut down and the
	// last key is done. A duration measured at that very moment by another
	// worker may still follow.
	Unregister()
}
