package workqueue

import (
	"context"
	"fmt"
	"iter"
	"sync"
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
// At any time a key is owed at most one hand-out beside the one that is
// running. Every way to add asks for the key to be handed out at a time or
// sooner, and the soonest asked for wins: an Add supersedes a delayed add,
// whichever came first; of two delayed adds the earlier wins; and the highest
// of their priorities holds.
//
// All methods may be called at any time from any goroutine. Add, Get and Done
// take constant time; a delayed add takes time in the logarithm of the number
// of delayed keys.
//
// A key must equal itself: a floating-point NaN cannot be a key.
type Queue[K comparable] struct {
	name      string
	limiter   RateLimiter[K]
	recorder  Recorder // nil: no metrics
	order     Order[K] // nil: ranking
	fairEvery int
	timed     bool
	base      time.Time // zero of the queue's clock
	drained   chan struct{}

	// mu guards everything below and is held while the order is called. No
	// other lock is taken under it; limiter, recorder and the worker's code are
	// called without it.
	mu      sync.Mutex
	state   State
	items   map[K]*item[K] // every key that is not idle
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

// New creates a queue. It starts no goroutine. A queue that is to be dropped
// must be shut down if it has metrics or delayed adds; otherwise it is garbage
// like any other value.
func New[K comparable](opts Options[K]) *Queue[K] {
	q := &Queue[K]{
		name:      opts.Name,
		limiter:   opts.RateLimiter,
		order:     opts.Order,
		fairEvery: opts.FairEvery,
		timed:     opts.Timestamps || opts.Metrics != nil,
		base:      time.Now(),
		drained:   make(chan struct{}),
		items:     make(map[K]*item[K]),
	}
	if q.limiter == nil {
		q.limiter = NewExponential[K](ExponentialOptions{})
	}
	if q.fairEvery <= 0 {
		q.fairEvery = DefaultFairEvery
	}
	q.alarm.ring = q.ring
	if opts.Metrics != nil {
		q.recorder = opts.Metrics.Register(q.name, q.Status)
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
// when the work has ended, however it ended. The error is ErrShutDown when the
// queue will hand out no more keys, or the cause of the context's end. A
// context that has ended gets no key, even if one waits.
func (q *Queue[K]) Get(ctx context.Context) (K, error) {
	return q.await(ctx, q.tryGet(ctx, nil))
}

// await repeats an attempt at Get until it comes to a key or an error.
func (q *Queue[K]) await(ctx context.Context, got grant[K]) (K, error) {
	for got.sleeper != nil {
		select {
		case <-got.sleeper.wake:
		case <-ctx.Done():
		}
		got = q.tryGet(ctx, got.sleeper)
	}
	if got.err == nil && q.recorder != nil {
		q.recorder.QueueDuration(got.waited)
	}
	return got.key, got.err
}

// grant is what one attempt at Get came to: a key, an error, or a sleeper to
// wait with before the next attempt.
type grant[K comparable] struct {
	key     K
	waited  time.Duration
	err     error
	sleeper *sleeper
}

// tryGet is one attempt at Get; slept is what the previous one waited with.
func (q *Queue[K]) tryGet(ctx context.Context, slept *sleeper) grant[K] {
	ended := cause(ctx)
	now := q.stamp()
	q.mu.Lock()
	defer q.mu.Unlock()
	if slept != nil {
		q.sleep.leave(slept)
	}
	return q.grant(ended, slept != nil, now)
}

// cause is context.Cause, but as cheap as Err while the context goes on.
func cause(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}

// grant hands out a key if one waits; ended is why the context has ended, if it
// has.
func (q *Queue[K]) grant(ended error, slept bool, now int64) (got grant[K]) {
	switch {
	case ended != nil:
		// The wake-up that this caller may have taken belongs to another.
		if slept && q.waiting.len > 0 {
			q.sleep.wakeOne()
		}
		got.err = ended
	case q.waiting.len > 0:
		it := q.handOut(now)
		got.key, got.waited = it.key, since(it.added, now)
	case q.state != Open && q.again == 0:
		got.err = q.errShutDown()
	default:
		got.sleeper = q.sleep.enter()
	}
	return got
}

// handOut moves the key whose turn it is from waiting to running.
func (q *Queue[K]) handOut(now int64) *item[K] {
	it := q.choose()
	q.waiting.remove(it)
	q.running.pushBack(it)
	it.want, it.running, it.handed, it.started = wantNothing, true, it.priority, now
	q.started += now
	q.counts.gets++
	q.settle()
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
		q.order.Remove(oldest.key)
		return oldest
	}
	it := q.items[q.order.Pop()]
	if it == nil || it.want != wantNow || it.running {
		q.counts.orderFaults++
		q.order.Remove(oldest.key)
		return oldest
	}
	return it
}

// Done ends the work on a key. If the key was added meanwhile it waits again
// from now on. Each Get must be followed by exactly one Done of its key: Done
// panics for a key that is not running, because ending another worker's turn
// would let two workers have the key at once (L26).
func (q *Queue[K]) Done(key K) {
	took, settled := q.end(key, q.stamp())
	q.recordDone(took, settled)
}

func (q *Queue[K]) end(key K, now int64) (took time.Duration, settled bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.done(key, now)
}

func (q *Queue[K]) recordDone(took time.Duration, settled bool) {
	if q.recorder == nil {
		return
	}
	q.recorder.WorkDuration(took)
	if settled {
		q.recorder.Unregister()
	}
}

// done ends the work on a key, under the lock.
func (q *Queue[K]) done(key K, now int64) (took time.Duration, settled bool) {
	it := q.running.head // with one worker it is this one
	if it == nil || it.key != key {
		it = q.items[key]
	}
	if it == nil || !it.running {
		panic(fmt.Sprintf("workqueue %q: Done(%v) of a key that is not running: call Done once for each Get", q.name, key))
	}
	took = since(it.started, now)
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
	return took, q.settle()
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

// exchange is Done and then Get.
func (q *Queue[K]) exchange(ctx context.Context, key K) (K, error) {
	took, settled, got := q.endAndTryGet(ctx, key)
	q.recordDone(took, settled)
	return q.await(ctx, got)
}

func (q *Queue[K]) endAndTryGet(ctx context.Context, key K) (took time.Duration, settled bool, got grant[K]) {
	ended := cause(ctx)
	now := q.stamp()
	q.mu.Lock()
	defer q.mu.Unlock()
	took, settled = q.done(key, now)
	return took, settled, q.grant(ended, false, now)
}

// Len returns how many keys wait to be handed out. Keys that are delayed or
// running do not count.
func (q *Queue[K]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting.len
}
