package workqueue

import (
	"context"
	"fmt"
	"iter"
	"time"
)

// Queue is an ordered set of keys to work on. Each key is in one of these states:
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
// A key has at most one pending hand-out, even while it is running. Every add requests that the key be handed
// out by a certain time, and the soonest request wins: an immediate add beats a delayed one, in either order,
// and the earlier of two delayed adds beats the later one. The highest of their priorities applies.
//
// All methods are safe for concurrent use and may be called at any time. Add, Get and Done take constant
// time, or at worst time logarithmic in the number of priorities in use. A delayed add takes time logarithmic
// in the number of delayed keys.
//
// A key must be equal to itself, so a floating-point NaN cannot be used as a key.
type Queue[K comparable] struct {
	name      string
	limiter   RateLimiter[K]
	metrics   *guardedMetrics // nil if none
	order     *ordered[K]     // nil means that ranking decides
	fairEvery int
	timed     bool
	base      time.Time // start of the queue's clock
	drained   chan struct{}

	// mu guards the fields below; hashing needs no lock. It is held while the order is called, and no other
	// lock is acquired while holding it. The limiter, the metrics and worker code are called without it. Add,
	// Get and Done unlock it without defer, which would make them 10% slower.
	mu      lock
	state   State
	items   table[K] // every key that is not idle
	free    freeItems[K]
	waiting list[K]    // longest waiting first
	running list[K]    // longest running first
	ranking ranking[K] // the waiting keys by priority; unused with an order
	delays  delays[K]
	alarm   alarm
	sleep   sleepers
	again   int   // running keys that will wait after their Done
	turn    int   // Gets since the longest waiting key was taken
	started int64 // sum of started over the running items
	settled bool  // drained is closed
	counts  counts
}

// New returns a queue. A queue with metrics or delayed adds must be shut down before it is discarded; any
// other queue is garbage collected like any value.
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

// stamp returns the clock, or zero if the queue does not record times.
func (q *Queue[K]) stamp() int64 {
	if !q.timed {
		return 0
	}
	return q.clock()
}

// Get waits for a key and returns it. The caller must call Done with the key when the work is finished,
// successfully or not. The error is ErrShutDown if the queue hands out no more keys, or the cause of ctx if
// ctx is done. If ctx is already done, Get returns no key even if one is waiting.
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

// deliver completes a Get: it sleeps and retries until an attempt returns an item or an error.
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

// tryAgain makes another attempt after a sleep.
func (q *Queue[K]) tryAgain(ctx context.Context, slept *sleeper) (*item[K], *sleeper, error) {
	ended, now := cause(ctx), q.stamp()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sleep.leave(slept)
	if ended != nil && q.waiting.len > 0 {
		// Pass on the wake-up that this caller may have taken.
		q.sleep.wakeOne()
	}
	return q.grant(ended, now)
}

// cause is like context.Cause, but as cheap as Err while ctx is not done.
func cause(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}

// grant makes one attempt at Get; the caller must hold the lock. It returns an item, an error, or a sleeper
// to wait with before the next attempt. ended is the cause of the context, if it is done.
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

// handOut moves the next key from waiting to running.
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

// choose removes the next key from the order. Every fairEvery-th call takes the key that has waited longest.
// New keys join behind older ones, so a key with n older keys ahead of it is handed out within
// fairEvery*(n+1) calls.
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

// Done ends the work on a key. If the key was added while running, it starts waiting again. Each Get must be
// followed by exactly one Done of its key. Done panics if the key is not running, because ending another
// worker's turn would let two workers hold the key at once (L26).
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

// lockedDone calls done with the lock held, and releases the lock even if done panics because the key is
// not hashable.
func (q *Queue[K]) lockedDone(key K, now int64) ending {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.done(key, now)
}

// ending is the result of done.
type ending struct {
	took    time.Duration
	stray   bool // the key was not running
	settled bool // it was the last key of a queue being shut down
}

// record updates the metrics. The caller must not hold the lock.
func (q *Queue[K]) record(end ending) {
	q.metrics.workDuration(end.took)
	if end.settled {
		q.metrics.unregister()
	}
}

// stray returns the panic message for a Done with a key that is not running.
func (q *Queue[K]) stray(key K) string {
	return fmt.Sprintf("workqueue %q: Done(%v) of a key that is not running: call Done once for each Get", q.name, key)
}

// done ends the work on a key. The caller must hold the lock.
func (q *Queue[K]) done(key K, now int64) ending {
	it := q.running.tail // no need to hash the most recent key
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

// Work returns an iterator over keys. It yields keys until ctx is done or the queue is shut down, and calls
// Done after each iteration, even if the loop body breaks out or panics. Work is cheaper than Get and Done,
// since it finishes one key and gets the next in a single step. Any number of workers may run such a loop:
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

// exchange is Done and Get in one critical section.
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

// Len returns the number of waiting keys. It counts neither delayed nor running keys, not even running
// keys that were added again, since those join the line when they are done.
func (q *Queue[K]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting.len
}

// DefaultFairEvery is the default for Options.FairEvery: one Get in eight takes the key that has waited
// longest. Urgent keys then get at least seven eighths of the workers, and a key with n older keys ahead of
// it is handed out within 8*(n+1) Gets.
const DefaultFairEvery = 8

// Options configure a Queue. The zero value is a FIFO queue with the default back-off and no metrics.
type Options[K comparable] struct {
	// Name identifies the queue in metrics, errors and panics.
	Name string

	// RateLimiter determines the delay of AddRateLimited. The default is NewExponential with its
	// defaults. Share a limiter between queues only if you want their keys to share the back-off.
	RateLimiter RateLimiter[K]

	// Order decides which waiting key is handed out next. By default the highest priority comes first
	// and, within a priority, the oldest key.
	Order Order[K]

	// FairEvery is n in the fairness rule: every n-th Get takes the key that has waited longest, regardless
	// of Order and priorities. One means first come, first served; zero or less means DefaultFairEvery. The
	// rule cannot be disabled, because without it a key could wait forever (L30).
	FairEvery int

	// Metrics receives waiting and working times, and can read the queue's Status. If it is nil, metrics cost
	// nothing.
	Metrics MetricsProvider

	// Timestamps makes the queue record when keys are added and handed out, so Status and Contents include
	// ages. It costs a clock reading in each Add, Get and Done, about 20-100 ns. It is always on if Metrics
	// is set.
	Timestamps bool
}

// AddOptions are the options for [Queue.AddWith]. The zero value is an immediate add with priority zero.
type AddOptions struct {
	// Priority is the key's priority; higher priorities are handed out first. If adds of a key are merged,
	// the highest priority applies. Priorities may be negative.
	Priority int

	// KeepPriority raises the priority of an add between a key's Get and its Done to at least the
	// priority of its hand-out. Use it for retries.
	KeepPriority bool

	// After is the delay before the key may be handed out.
	After time.Duration

	// RateLimited counts a failure of the key and delays it by the limiter's delay or by After, whichever is
	// longer.
	RateLimited bool
}

// Waiting is a waiting key, as passed to an Order.
type Waiting[K comparable] struct {
	Key      K
	Priority int
}

// Order decides which waiting key is handed out next. It is a set: the queue never pushes a key that the
// order already contains.
//
// The queue calls its order with its lock held, one call at a time, so an order needs no locking and must be
// quick. It must not call the queue, because that would deadlock. If a method panics or calls runtime.Goexit,
// the failure is recorded in the Status and the queue hands out the key that has waited longest. The queue
// itself keeps track of that key; see Options.FairEvery.
type Order[K comparable] interface {
	// Push adds a key that has started waiting.
	Push(w Waiting[K])

	// Touch is called when a waiting key is added again. Its priority may have risen.
	Touch(w Waiting[K])

	// Pop removes and returns the next key. It is called only while keys are waiting. If it returns a
	// key that is not waiting, the queue hands out the key that has waited longest and counts an
	// OrderFault in its Status.
	Pop() K

	// Remove removes a key that the queue has handed out without Pop, or dropped.
	Remove(key K)
}

// MetricsProvider creates the Metrics for each queue. Counters and gauges are read through the status
// function at collection time; durations are pushed. Package metrics implements it for Prometheus.
type MetricsProvider interface {
	// Register is called once by New. The status function is safe for concurrent use and may be called at any
	// time, even after Unregister. If Register panics or calls runtime.Goexit, the Status reports it and the
	// queue has no metrics.
	Register(name string, status func() Status) Metrics
}

// Metrics receives durations from one queue. The workers call its methods concurrently, outside the queue's
// lock. A panic or runtime.Goexit is recorded in the queue's Status.
type Metrics interface {
	// QueueDuration receives how long a key waited from its Add, or from the end of its delay, until its
	// Get.
	QueueDuration(d time.Duration)

	// WorkDuration receives the time from a key's Get to its Done.
	WorkDuration(d time.Duration)

	// Unregister is called once the queue has been shut down and the last key is done. A duration measured
	// concurrently by another worker may still arrive afterwards.
	Unregister()
}
