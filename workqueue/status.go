package workqueue

import (
	"cmp"
	"slices"
	"time"
)

// counts are the counters of a queue.
type counts struct {
	adds, merged, gets, retries, cancelled, dropped, orderFaults uint64

	hookFailure string
}

// Status is a snapshot of a queue. Counters start at zero. Durations are zero if the queue does not record
// times; see Options.Timestamps.
type Status struct {
	Name  string
	State State

	// Waiting is the number of keys waiting for a worker. If it grows, the workers cannot keep up.
	Waiting int
	// ByPriority splits Waiting by priority, highest first. It may include priorities with no keys. It is nil
	// for a queue with a custom Order.
	ByPriority []PriorityDepth
	// Again is the number of running keys that were added again while running, and will wait after their
	// Done.
	Again int
	// Running is the number of keys between Get and Done.
	Running int
	// Delayed is the number of keys with a delayed add.
	Delayed int
	// Sleeping is the number of workers waiting in Get. While workers are sleeping, keys wait only for an
	// instant.
	Sleeping int

	// Adds is the number of requested hand-outs. Merged adds are not counted, and a delayed add is counted
	// when it comes due. Each counted add was handed out, is waiting, or was dropped by ShutDown.
	Adds uint64
	// Merged is the number of adds merged into a pending hand-out.
	Merged uint64
	// Gets is the number of keys handed out.
	Gets uint64
	// Retries is the number of rate-limited adds.
	Retries uint64
	// Cancelled is the number of delayed adds canceled by Cancel.
	Cancelled uint64
	// Dropped is the number of adds after ShutDown or Drain, plus the number of waiting or delayed keys
	// that ShutDown or Drain dropped.
	Dropped uint64
	// OrderFaults counts how often the Order panicked, called runtime.Goexit or returned a key that was
	// not waiting. If it is not zero, the Order has a bug.
	OrderFaults uint64
	// HookFailure is the last panic in, or runtime.Goexit call by, the Order, the MetricsProvider, the
	// Metrics or the RateLimiter, or "" if there was none.
	HookFailure string `json:",omitempty"`

	// OldestWaiting is how long the longest-waiting key has been waiting.
	OldestWaiting time.Duration
	// LongestRunning is how long the longest-running key has been running. If it keeps growing, a worker is
	// stuck.
	LongestRunning time.Duration
	// UnfinishedWork is the total time that the running keys have been running.
	UnfinishedWork time.Duration
}

// PriorityDepth is the number of waiting keys with one priority.
type PriorityDepth struct {
	Priority int
	Waiting  int
}

// Status returns the queue's state and counters. Its cost depends on the number of priorities in use,
// not on the number of keys.
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

// since returns the time from then to now, or 0. Stamps are read before locking, so they may be out of order.
func since(then, now int64) time.Duration {
	return time.Duration(max(now-then, 0))
}

// RunningPriority returns the priority of a running key's hand-out, and whether the key is running.
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

// Waited returns how long a running key waited before it was handed out. It returns 0 if the key is not
// running or the queue does not record times.
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

// Contents lists keys in a queue.
type Contents[K comparable] struct {
	// Running keys, longest running first.
	Running []Held[K]
	// Waiting keys, longest waiting first. With several priorities they are handed out in a different order.
	Waiting []Held[K]
	// Delayed keys, earliest first. A running key may be delayed too.
	Delayed []Held[K]
}

// Held is a key in a queue.
type Held[K comparable] struct {
	Key K
	// Priority is the priority of the pending hand-out, or of the running one.
	Priority int
	// Since is when the key started running or waiting. It is zero if the queue does not record times.
	Since time.Time
	// Due is when a delayed key becomes due. It is zero for other keys.
	Due time.Time
	// Again reports whether a running key will wait again after its Done.
	Again bool
	// Requeues is the number of failures counted by the limiter for the key, or -1 if the limiter blocks.
	Requeues int
}

// Contents returns at most n keys of each kind, for debugging a stuck queue. It takes time proportional
// to n, and a second longer if the limiter blocks.
func (q *Queue[K]) Contents(n int) Contents[K] {
	c, requeues := q.contents(n), 0
	for _, held := range [][]Held[K]{c.Running, c.Waiting, c.Delayed} {
		for i := range held {
			if requeues >= 0 { // otherwise, the limiter would block again
				requeues = q.limiter.NumRequeues(held[i].Key)
			}
			held[i].Requeues = requeues
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

// wall converts a stamp to a time.
func (q *Queue[K]) wall(stamp int64) time.Time {
	if !q.timed {
		return time.Time{}
	}
	return q.base.Add(time.Duration(stamp - 1))
}

// earliest yields the first n items in chronological order. It walks the heap from the root, because the next
// item is always a child of one that was already yielded.
func (d *delays[K]) earliest(n int) func(yield func(*item[K]) bool) {
	return func(yield func(*item[K]) bool) {
		if len(d.slots) == 0 {
			return
		}
		border := []int{0} // heap indexes, latest first
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
