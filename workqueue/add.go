package workqueue

import "time"

// Add queues the key with priority zero, to be handed out when its turn comes. If the key is already waiting,
// nothing changes, except that a negative priority rises to zero. If it is running, it waits again after its
// Done, behind the keys of the same or a higher priority that are waiting by then, unless Options.Order is
// set. If it is delayed, the delay is dropped and the key waits from now on. After ShutDown or Drain, Add
// drops the key and counts it in Status.Dropped.
func (q *Queue[K]) Add(key K) {
	hash, now := q.items.hash(key), q.stamp()
	q.mu.Lock()
	q.add(key, hash, 0, false, 0, now)
	q.mu.Unlock()
}

// AddAfter adds the key after a delay; see [Queue] for keys that are added again sooner. If after is
// zero or less, AddAfter acts like Add.
func (q *Queue[K]) AddAfter(key K, after time.Duration) {
	q.AddWith(AddOptions{After: after}, key)
}

// AddRateLimited reports a failure of the key to the rate limiter and adds the key after the delay that the
// limiter returns. Forget resets the back-off.
func (q *Queue[K]) AddRateLimited(key K) {
	q.AddWith(AddOptions{RateLimited: true}, key)
}

// AddWith adds keys with options. It adds them in order, under a single lock.
func (q *Queue[K]) AddWith(opts AddOptions, keys ...K) {
	if opts.RateLimited {
		opts.RateLimited = false
		for _, key := range keys {
			limited := opts
			if q.countRetry() {
				limited.After = max(opts.After, q.limiter.When(key))
			}
			q.AddWith(limited, key)
		}
		return
	}
	now := q.stamp()
	var at int64
	if opts.After > 0 {
		now = q.clock()
		at = due(now, opts.After)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, key := range keys {
		q.add(key, q.items.hash(key), opts.Priority, opts.KeepPriority, at, now)
	}
}

// countRetry counts a rate-limited add. It returns false if the queue is shut down, because the key would be
// dropped and the limiter must not count it.
func (q *Queue[K]) countRetry() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state != Open {
		return false
	}
	q.counts.retries++
	return true
}

// add requests that the key be handed out at the given time or sooner; at zero means now.
func (q *Queue[K]) add(key K, hash uint64, priority int, keep bool, at, now int64) {
	if q.state != Open {
		q.counts.dropped++
		return
	}
	it := q.items.find(key, hash)
	if it == nil {
		it = q.admit(key, hash)
	}
	if keep && it.running {
		priority = max(priority, it.handed)
	}
	switch {
	case it.want == wantNow:
		q.merge(it, priority)
	case at > 0:
		q.schedule(it, priority, at, now)
	case it.want == wantLater:
		q.unschedule(it)
		q.counts.merged++
		q.owe(it, max(it.priority, priority), now)
	default:
		q.owe(it, priority, now)
	}
}

// merge adds a key that is already due. The key keeps its position in order of waiting time. If its priority
// rises, it goes to the back of the line for its new priority.
func (q *Queue[K]) merge(it *item[K], priority int) {
	q.counts.merged++
	raised := priority > it.priority
	switch {
	case it.running:
		it.priority = max(it.priority, priority)
	case q.order != nil:
		it.priority = max(it.priority, priority)
		q.order.touch(Waiting[K]{it.key, it.priority})
	case raised:
		q.ranking.remove(it)
		it.priority = priority
		q.ranking.push(it)
	}
}

// owe makes an item wait, either immediately or after its Done.
func (q *Queue[K]) owe(it *item[K], priority int, now int64) {
	it.priority, it.added, it.want = priority, now, wantNow
	q.counts.adds++
	if it.running {
		q.again++
		return
	}
	q.enqueue(it)
}

// enqueue adds an item that is not running to the waiting items, and wakes a sleeping worker if there is
// one.
func (q *Queue[K]) enqueue(it *item[K]) {
	q.waiting.pushBack(it)
	if q.order != nil {
		q.order.push(Waiting[K]{it.key, it.priority})
	} else {
		q.ranking.push(it)
	}
	q.sleep.wakeOne()
}

// admit creates the item for an idle key.
func (q *Queue[K]) admit(key K, hash uint64) *item[K] {
	it := q.free.take()
	it.key, it.hash = key, hash
	q.items.insert(it)
	return it
}

// retire frees the item of a key that has become idle: the item is in no list, has no pending hand-out and is
// not running.
func (q *Queue[K]) retire(it *item[K]) {
	q.items.remove(it)
	q.free.give(it)
}
