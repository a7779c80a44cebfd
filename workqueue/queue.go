package workqueue

import (
	"context"
	"fmt"
	"iter"
	"time"
)

// Queue is a queue of keys to be worked on: a set in order. Each key is in one
// of these states:
//
//	          Add                Get
//	idle ───────────► waiting ──────────► running ──┐
//	  ▲                  ▲  ▲                │      │ Add: noted, and the
//	  │                  │  └────────────────┼──────┘ key waits after Done
//	  │ Cancel           │ time is up        │ Done
//	  └────── delayed ───┘                   ▼
//	             ▲                          idle
//	             └── AddAfter, AddRateLimited
//
// At any time a key is owed at most one hand-out besides the one that is running.
// Every add asks for a hand-out at some time or sooner, and the soonest wins: an Add
// supersedes a delayed add, whichever came first; of two delayed adds the earlier
// wins; the highest of their priorities holds.
//
// All methods may be called at any time from any goroutine. Add, Get and Done
// take constant time, or time in the logarithm of the priorities in use; a delayed
// add takes time in the logarithm of the number
// of delayed keys.
//
// A key must equal itself: a floating-point NaN cannot be a key.
type Queue[K comparable] struct {
	name      string
	limiter   RateLimiter[K]
	metrics   *guardedMetrics // nil if there are none
	order     *ordered[K]     // nil: ranking
	fairEvery int
	timed     bool
	base      time.Time // zero of the queue's clock
	drained   chan struct{}

	// mu guards everything below, except that hashing needs no lock, and is
	// held while the order is called. No other lock is taken under it; limiter,
	// metrics and the worker's code are called without it. Add, Get and Done
	// give it back without a defer, which would cost them a tenth.
	mu      lock
	state   State
	items   table[K] // every key that is not idle
	free    freeItems[K]
	waiting list[K]    // the longest waiting first
	running list[K]    // the longest running first
	ranking ranking[K] // the waiting keys again, by priority; unused with an order
	delays  delays[K]
	alarm   alarm
	sleep   sleepers
	again   int   // running keys that will wait after their Done
	turn    int   // Gets since one took the longest waiting key
	started int64 // sum of the running items' started
	settled bool  // drained is closed
	counts  counts
}

// New creates a queue. Shut a queue down before you drop it if
// it has metrics or delayed adds; otherwise it is garbage like any other value.
func New[K comparable](opts Options[K]) *Queue[K] {
	q := &Queue[K]{
		name:      opts.Name,
		limiter:   opts.RateLimiter,
		fairEvery: opts.FairEvery,
		timed:     opts.Timestamps || opts.Metrics != nil,
		base:      time.Now(),
		drained:   make(chan struct{}),
		items:     newTable[K](),
	}
	if opts.Order != nil {
		q.order = &ordered[K]{order: opts.Order, count: &q.counts}
	}
	if q.limiter == nil {
		q.limiter = NewExponential[K](ExponentialOptions{})
	} else {
		q.limiter = &limited[K]{limiter: q.limiter, failed: q.hookFailed}
	}
	if q.fairEvery <= 0 {
		q.fairEvery = DefaultFairEvery
	}
	q.alarm.ring = q.ring
	if opts.Metrics != nil {
		q.register(opts.Metrics)
	}
	return q
}

// Name returns the name given in Options.
func (q *Queue[K]) Name() string {
	return q.name
}

// clock returns nanoseconds since the queue was created, and never zero.
func (q *Queue[K]) clock() int64 {
	return int64(time.Since(q.base)) + 1
}

// stamp is the clock where times are kept, and zero where they are not.
func (q *Queue[K]) stamp() int64 {
	if !q.timed {
		return 0
	}
	return q.clock()
}

// Get waits for a key and hands it to the caller, who must call Done with it
// when the work has ended, however it ended. The error is ErrShutDown if the queue
// will hand out no more keys, or the cause of the context's end. A context that has
// ended gets no key, even if one waits.
func (q *Queue[K]) Get(ctx context.Context) (K, error) {
	ended, now := cause(ctx), q.stamp()
	q.mu.Lock()
	it, w, err := q.grant(ended, now)
	q.mu.Unlock()
	if it != nil && q.metrics == nil {
		return it.key, nil
	}
	return q.deliver(ctx, it, w, err)
}

// deliver is what follows an attempt at Get: it makes more of them after a sleep
// each, until one comes to an item or an error.
func (q *Queue[K]) deliver(ctx context.Context, it *item[K], w *sleeper, err error) (key K, _ error) {
	for w != nil {
		select {
		case <-w.wake:
		case <-ctx.Done():
		}
		it, w, err = q.tryAgain(ctx, w)
	}
	if err != nil {
		return key, err
	}
	if q.metrics != nil {
		q.metrics.queueDuration(it.waited)
	}
	return it.key, nil
}

// tryAgain is an attempt at Get after a sleep.
func (q *Queue[K]) tryAgain(ctx context.Context, slept *sleeper) (*item[K], *sleeper, error) {
	ended, now := cause(ctx), q.stamp()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sleep.leave(slept)
	if ended != nil && q.waiting.len > 0 {
		// The wake-up that this caller may have taken belongs to another.
		q.sleep.wakeOne()
	}
	return q.grant(ended, now)
}

// cause is context.Cause, but as cheap as Err while the context goes on.
func cause(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}

// grant is one attempt at Get, under the lock. It comes to an item, an error,
// or a sleeper to wait with before the next attempt. ended is why the context
// has ended, if it has.
func (q *Queue[K]) grant(ended error, now int64) (*item[K], *sleeper, error) {
	switch {
	case ended != nil:
		return nil, nil, ended
	case q.waiting.len > 0:
		return q.handOut(now), nil, nil
	case q.state != Open && q.again == 0:
		return nil, nil, q.errShutDown()
	default:
		return nil, q.sleep.enter(), nil
	}
}

// handOut moves the key whose turn it is from waiting to running.
func (q *Queue[K]) handOut(now int64) *item[K] {
	it := q.choose()
	q.waiting.remove(it)
	q.running.pushBack(it)
	it.want, it.running, it.handed, it.started = wantNothing, true, it.priority, now
	it.waited = since(it.added, now)
	q.started += now
	q.counts.gets++
	if q.state != Open {
		q.settle()
	}
	return it
}

// choose takes the next key out of the order. Every fairEvery-th call takes
// the key that has waited longest, so a key with n older ones before it is
// handed out within fairEvery*(n+1) calls: no key ever joins before it.
func (q *Queue[K]) choose() *item[K] {
	oldest := q.waiting.head
	q.turn++
	fair := q.turn >= q.fairEvery
	if fair {
		q.turn = 0
	}
	switch {
	case q.order == nil && fair:
		q.ranking.remove(oldest)
		return oldest
	case q.order == nil:
		it := q.ranking.first()
		q.ranking.remove(it)
		return it
	case fair:
		q.order.remove(oldest.key)
		return oldest
	}
	if it, ok := q.order.pop(&q.items); ok {
		if it != nil && it.want == wantNow && !it.running {
			return it
		}
		q.counts.orderFaults++
	}
	q.order.remove(oldest.key)
	return oldest
}

// Done ends the work on a key. If the key was added meanwhile it waits again
// from now on. Each Get must be followed by exactly one Done of its key: Done
// panics for a key that is not running, because ending another worker's turn
// would let two workers have the key at once (L26).
func (q *Queue[K]) Done(key K) {
	now := q.stamp()
	end := q.lockedDone(key, now)
	if end.stray {
		panic(q.stray(key))
	}
	if q.metrics != nil {
		q.record(end)
	}
}

// lockedDone is done with the lock, which what can be no key, and so panics, does not keep.
func (q *Queue[K]) lockedDone(key K, now int64) ending {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.done(key, now)
}

// ending is what the end of the work on a key came to.
type ending struct {
	took    time.Duration
	stray   bool // the key was not running
	settled bool // it was the last of a queue that is shut down
}

// record calls the metrics, without the lock.
func (q *Queue[K]) record(end ending) {
	q.metrics.workDuration(end.took)
	if end.settled {
		q.metrics.unregister()
	}
}

// stray is what a Done panics with whose key was not running.
func (q *Queue[K]) stray(key K) string {
	return fmt.Sprintf("workqueue %q: Done(%v) of a key that is not running: call Done once for each Get", q.name, key)
}

// done ends the work on a key, under the lock.
func (q *Queue[K]) done(key K, now int64) ending {
	it := q.running.tail // the key that was handed out last need not be hashed
	if it == nil || it.key != key {
		it = q.items.find(key, q.items.hash(key))
	}
	if it == nil || !it.running {
		return ending{stray: true}
	}
	end := ending{took: since(it.started, now)}
	q.running.remove(it)
	q.started -= it.started
	it.running = false
	switch it.want {
	case wantNow:
		q.again--
		q.enqueue(it)
	case wantNothing:
		q.retire(it)
	}
	end.settled = q.state != Open && q.settle()
	return end
}

// Work returns an iterator that gets keys until the context ends or the queue
// is shut down, and calls Done after each round of the loop, also after one
// that is left or panics. It is cheaper than Get and Done, since it ends one
// key and gets the next in one step. Any number of workers may run such a loop
// at once:
//
//	for key := range q.Work(ctx) { ... }
func (q *Queue[K]) Work(ctx context.Context) iter.Seq[K] {
	return func(yield func(K) bool) {
		key, err := q.Get(ctx)
		defer func() {
			if err == nil {
				q.Done(key)
			}
		}()
		for err == nil && yield(key) {
			key, err = q.exchange(ctx, key)
		}
	}
}

// exchange is Done and then Get, in one section of the lock.
func (q *Queue[K]) exchange(ctx context.Context, key K) (K, error) {
	ended, now := cause(ctx), q.stamp()
	q.mu.Lock()
	end := q.done(key, now)
	var it *item[K]
	var w *sleeper
	var err error
	if !end.stray {
		it, w, err = q.grant(ended, now)
	}
	q.mu.Unlock()
	if end.stray {
		panic(q.stray(key))
	}
	if q.metrics != nil {
		q.record(end)
	}
	return q.deliver(ctx, it, w, err)
}

// Len returns how many keys wait to be handed out. Keys that are delayed or
// running do not count, nor do running keys that were added again: they take their
// place at the end of the line when they are done.
func (q *Queue[K]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting.len
}

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
