package workqueue

import (
	"math"
	"sync"
	"time"
)

// delays is a heap of delayed adds, earliest first. Adds due at the same time keep their order.
type delays[K comparable] struct {
	slots []delaySlot[K]
	asked uint64 // number of adds so far
}

// delaySlot repeats the item's time, so the heap compares slice elements without chasing
// pointers.
type delaySlot[K comparable] struct {
	at    int64
	asked uint64
	it    *item[K]
}

// before reports whether s comes before t.
func (s delaySlot[K]) before(t delaySlot[K]) bool {
	return s.at < t.at || s.at == t.at && s.asked < t.asked
}

// slot returns the slot for an item added now.
func (d *delays[K]) slot(it *item[K]) delaySlot[K] {
	d.asked++
	return delaySlot[K]{it.at, d.asked, it}
}

func (d *delays[K]) push(it *item[K]) {
	d.slots = append(d.slots, delaySlot[K]{})
	d.up(len(d.slots)-1, d.slot(it))
}

func (d *delays[K]) remove(it *item[K]) {
	at, last := it.slot, len(d.slots)-1
	moved := d.slots[last]
	d.slots[last] = delaySlot[K]{}
	d.slots = d.slots[:last]
	if at != last {
		d.place(at, moved)
	}
	if last == 0 && cap(d.slots) > keptRoom {
		d.slots = nil
	}
}

// move restores the heap after an item's time has changed.
func (d *delays[K]) move(it *item[K]) {
	d.place(it.slot, d.slot(it))
}

func (d *delays[K]) place(at int, s delaySlot[K]) {
	if at > 0 && s.before(d.slots[(at-1)/2]) {
		d.up(at, s)
	} else {
		d.down(at, s)
	}
}

func (d *delays[K]) up(at int, s delaySlot[K]) {
	for at > 0 {
		parent := (at - 1) / 2
		if !s.before(d.slots[parent]) {
			break
		}
		d.set(at, d.slots[parent])
		at = parent
	}
	d.set(at, s)
}

func (d *delays[K]) down(at int, s delaySlot[K]) {
	for {
		child := 2*at + 1
		if child >= len(d.slots) {
			break
		}
		if right := child + 1; right < len(d.slots) && d.slots[right].before(d.slots[child]) {
			child = right
		}
		if !d.slots[child].before(s) {
			break
		}
		d.set(at, d.slots[child])
		at = child
	}
	d.set(at, s)
}

func (d *delays[K]) set(at int, s delaySlot[K]) {
	d.slots[at] = s
	s.it.slot = at
}

// alarm is a queue's single timer. It is set to the time of the earliest delayed add, or earlier: canceling
// or superseding an add does not reset it, so it may fire once without effect. Its fields are guarded by the
// queue's mutex.
//
// The timer's function runs in its own goroutine, which needs only the queue's mutex. flights counts the
// timers that are set or firing, so a shutdown can wait for the last one.
type alarm struct {
	ring    func()
	timer   *time.Timer // created when it is first set
	at      int64
	armed   bool
	flights sync.WaitGroup
}

// set makes the alarm fire at the given time or earlier.
func (a *alarm) set(at, now int64) {
	if a.armed && a.at <= at {
		return
	}
	a.at, a.armed = at, true
	wait := time.Duration(max(at-now, 0))
	switch {
	case a.timer == nil:
		a.flights.Add(1)
		a.timer = time.AfterFunc(wait, a.ring)
	case !a.timer.Reset(wait):
		a.flights.Add(1)
	}
}

// stop prevents the alarm from firing again; it may be firing right now.
func (a *alarm) stop() {
	if a.timer != nil && a.timer.Stop() {
		a.flights.Done()
	}
	a.armed = false
}

// due returns now+after on the queue's clock, without overflow.
func due(now int64, after time.Duration) int64 {
	if at := now + int64(after); at > now {
		return at
	}
	return math.MaxInt64
}

// schedule records a delayed add, unless the item is already due sooner.
func (q *Queue[K]) schedule(it *item[K], priority int, at, now int64) {
	if it.want == wantLater {
		q.counts.merged++
		it.priority = max(it.priority, priority)
		if at >= it.at {
			return
		}
		it.at = at
		q.delays.move(it)
	} else {
		it.want, it.priority, it.at = wantLater, priority, at
		q.delays.push(it)
	}
	q.alarm.set(q.delays.slots[0].at, now)
}

// ring is the alarm's function: it moves keys whose time has come to the waiting items.
func (q *Queue[K]) ring() {
	defer q.alarm.flights.Done()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.alarm.armed = false
	if len(q.delays.slots) == 0 {
		return
	}
	now := q.clock()
	for len(q.delays.slots) > 0 && q.delays.slots[0].at <= now {
		it := q.delays.slots[0].it
		q.delays.remove(it)
		it.want = wantNothing
		q.owe(it, it.priority, now)
	}
	if len(q.delays.slots) > 0 {
		q.alarm.set(q.delays.slots[0].at, now)
	}
}

// Cancel cancels a key's delayed add and reports whether there was one. It does not affect a key that is
// waiting or running.
func (q *Queue[K]) Cancel(key K) bool {
	hash := q.items.hash(key)
	q.mu.Lock()
	defer q.mu.Unlock()
	it := q.items.find(key, hash)
	if it == nil || it.want != wantLater {
		return false
	}
	q.unschedule(it)
	it.want = wantNothing
	if !it.running {
		q.retire(it)
	}
	q.counts.cancelled++
	return true
}

// Reschedule moves a key's delayed add, earlier or later, so that it is due after the given time, and reports
// whether there was one. Adding the key again cannot postpone it, since the earlier of two delayed adds wins.
// If after is zero or less, the key becomes due immediately.
func (q *Queue[K]) Reschedule(key K, after time.Duration) bool {
	hash := q.items.hash(key)
	q.mu.Lock()
	defer q.mu.Unlock()
	it := q.items.find(key, hash)
	if it == nil || it.want != wantLater {
		return false
	}
	now := q.clock()
	if after <= 0 {
		q.unschedule(it)
		it.want = wantNothing
		q.owe(it, it.priority, now)
		return true
	}
	it.at = due(now, after)
	q.delays.move(it)
	q.alarm.set(q.delays.slots[0].at, now)
	return true
}

// unschedule removes an item from the heap. After removing the last item it stops the alarm, so that a
// canceled one-hour delay does not keep the queue in memory for an hour.
func (q *Queue[K]) unschedule(it *item[K]) {
	q.delays.remove(it)
	if len(q.delays.slots) == 0 {
		q.alarm.stop()
	}
}
