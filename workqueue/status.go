package workqueue

import (
	"cmp"
	"slices"
	"time"
)

// counts are what a queue has done since it was created.
type counts struct {
	adds, merged, gets, retries, cancelled, dropped, orderFaults uint64

	hookFailure string
}

// Status is what a queue looks like at one instant. Counters start at zero with
// the queue. Durations are zero if the queue keeps no times; see
// Options.Timestamps.
type Status struct {
	Name  string
	State State

	// Waiting is how many keys wait for a worker. A figure that grows means
	// that the workers cannot keep up.
	Waiting int
	// ByPriority splits Waiting, highest priority first. It may hold
	// priorities with no key. It is nil for a queue with an Order of its own.
	ByPriority []PriorityDepth
	// Again is how many running keys were added while they ran and will wait
	// after their Done.
	Again int
	// Running is how many keys are between Get and Done.
	Running int
	// Delayed is how many keys have a delayed add pending.
	Delayed int
	// Sleeping is how many workers wait in Get. Waiting keys and sleeping
	// workers at the same time are seen only for an instant.
	Sleeping int

	// Adds is how many hand-outs were asked for: adds that merged with an
	// earlier one do not count, and a delayed add counts when its time comes.
	// Every one of them is handed out, waits, or was dropped by ShutDown.
	Adds uint64
	// Merged is how many adds found their key owed a hand-out already.
	Merged uint64
	// Gets is how many keys were handed out.
	Gets uint64
	// Retries is how many rate-limited adds there were.
	Retries uint64
	// Cancelled is how many delayed adds Cancel took back.
	Cancelled uint64
	// Dropped is how many adds came after ShutDown or Drain, and how many
	// waiting or delayed keys these threw away.
	Dropped uint64
	// OrderFaults is how often the Order named a key that did not wait, panicked
	// or called runtime.Goexit. Any number but zero is a bug in the Order.
	OrderFaults uint64
	// HookFailure is the last panic or runtime.Goexit of the Order, the
	// MetricsProvider, the Metrics or the RateLimiter; empty if there was none.
	HookFailure string `json:",omitempty"`

	// OldestWaiting is how long the key that waits longest has waited.
	OldestWaiting time.Duration
	// LongestRunning is how long the key that runs longest has run. One that
	// grows steadily is a worker that hangs.
	LongestRunning time.Duration
	// UnfinishedWork is the running keys' time so far, added up.
	UnfinishedWork time.Duration
}

// PriorityDepth is how many keys wait with one priority.
type PriorityDepth struct {
	Priority int
	Waiting  int
}

// Status returns the queue's state and counters. Its cost does not depend on
// how many keys the queue holds, but on how many priorities are in use.
func (q *Queue[K]) Status() Status {
	s := q.status()
	slices.SortFunc(s.ByPriority, func(a, b PriorityDepth) int { return cmp.Compare(b.Priority, a.Priority) })
	return s
}

func (q *Queue[K]) status() Status {
	now := q.stamp()
	q.mu.Lock()
	defer q.mu.Unlock()
	s := Status{
		Name:        q.name,
		State:       q.state,
		Waiting:     q.waiting.len,
		Again:       q.again,
		Running:     q.running.len,
		Delayed:     len(q.delays.slots),
		Sleeping:    len(q.sleep.asleep),
		Adds:        q.counts.adds,
		Merged:      q.counts.merged,
		Gets:        q.counts.gets,
		Retries:     q.counts.retries,
		Cancelled:   q.counts.cancelled,
		Dropped:     q.counts.dropped,
		OrderFaults: q.counts.orderFaults,
		HookFailure: q.counts.hookFailure,
	}
	if q.order == nil {
		s.ByPriority = make([]PriorityDepth, 0, len(q.ranking.levels))
		for _, l := range q.ranking.levels {
			s.ByPriority = append(s.ByPriority, PriorityDepth{l.priority, l.keys.len})
		}
	}
	if !q.timed {
		return s
	}
	if it := q.waiting.head; it != nil {
		s.OldestWaiting = since(it.added, now)
	}
	if it := q.running.head; it != nil {
		s.LongestRunning = since(it.started, now)
		s.UnfinishedWork = time.Duration(max(int64(q.running.len)*now-q.started, 0))
	}
	return s
}

// since is the time from then to now. A stamp is read before the lock is taken,
// so a later stamp may be used first.
func since(then, now int64) time.Duration {
	return time.Duration(max(now-then, 0))
}

// RunningPriority returns the priority with which a running key was handed out,
// and whether it is running.
func (q *Queue[K]) RunningPriority(key K) (priority int, running bool) {
	hash := q.items.hash(key)
	q.mu.Lock()
	defer q.mu.Unlock()
	it := q.items.find(key, hash)
	if it == nil || !it.running {
		return 0, false
	}
	return it.handed, true
}

// Waited returns how long a running key had waited before it was handed out: 0 for one
// that does not run, and without Timestamps.
func (q *Queue[K]) Waited(key K) time.Duration {
	hash := q.items.hash(key)
	q.mu.Lock()
	defer q.mu.Unlock()
	it := q.items.find(key, hash)
	if it == nil || !it.running {
		return 0
	}
	return it.waited
}

// Contents lists keys that a queue holds.
type Contents[K comparable] struct {
	// Running keys, the longest running first.
	Running []Held[K]
	// Waiting keys, the longest waiting first. If priorities differ, they will be
	// handed out in another order.
	Waiting []Held[K]
	// Delayed keys, the earliest due first. A running key may be delayed too.
	Delayed []Held[K]
}

// Held is one key that a queue holds.
type Held[K comparable] struct {
	Key K
	// Priority of the hand-out to come, or of the one that runs.
	Priority int
	// Since when the key has run or waited; zero if no times are kept.
	Since time.Time
	// Due is when a delayed key will wait; zero for others.
	Due time.Time
	// Again says of a running key that it will wait after its Done.
	Again bool
	// Requeues is how often the limiter has seen the key fail.
	Requeues int
}

// Contents returns at most n keys of each kind, to look into a queue that is
// stuck. It takes time in the order of n.
func (q *Queue[K]) Contents(n int) Contents[K] {
	c := q.contents(n)
	for _, held := range [][]Held[K]{c.Running, c.Waiting, c.Delayed} {
		for i := range held {
			held[i].Requeues = q.limiter.NumRequeues(held[i].Key)
		}
	}
	return c
}

func (q *Queue[K]) contents(n int) (c Contents[K]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for it := q.running.head; it != nil && len(c.Running) < n; it = q.running.next(it) {
		c.Running = append(c.Running, Held[K]{
			Key: it.key, Priority: it.handed, Since: q.wall(it.started), Again: it.want == wantNow,
		})
	}
	for it := q.waiting.head; it != nil && len(c.Waiting) < n; it = q.waiting.next(it) {
		c.Waiting = append(c.Waiting, Held[K]{Key: it.key, Priority: it.priority, Since: q.wall(it.added)})
	}
	for it := range q.delays.earliest(n) {
		c.Delayed = append(c.Delayed, Held[K]{Key: it.key, Priority: it.priority, Due: q.base.Add(time.Duration(it.at - 1))})
	}
	return c
}

// wall turns a stamp into a time.
func (q *Queue[K]) wall(stamp int64) time.Time {
	if !q.timed {
		return time.Time{}
	}
	return q.base.Add(time.Duration(stamp - 1))
}

// earliest yields the first n items in the order of their time. The heap is
// walked from its root: the next item is always among the children of those
// already yielded.
func (d *delays[K]) earliest(n int) func(yield func(*item[K]) bool) {
	return func(yield func(*item[K]) bool) {
		if len(d.slots) == 0 {
			return
		}
		border := []int{0} // places in the heap, the latest first
		for ; n > 0 && len(border) > 0; n-- {
			at := border[len(border)-1]
			border = border[:len(border)-1]
			if !yield(d.slots[at].it) {
				return
			}
			for child := 2*at + 1; child <= 2*at+2 && child < len(d.slots); child++ {
				place, _ := slices.BinarySearchFunc(border, d.slots[child], func(b int, t delaySlot[K]) int {
					if t.before(d.slots[b]) {
						return -1
					}
					return 1
				})
				border = slices.Insert(border, place, child)
			}
		}
	}
}
