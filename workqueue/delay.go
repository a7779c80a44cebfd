package workqueue

import (
	"math"
	"sync"
	"time"
)

// delays is the heap of delayed adds, earliest first. Those due at one moment come
// out in the order in which they were asked for.
type delays[K comparable] struct {
	slots []delaySlot[K]
	asked uint64 // how many there have been
}

// delaySlot repeats the item's time, so that sifting compares neighbours in
// the slice and does not chase pointers.
type delaySlot[K comparable] struct {
	at    int64
	asked uint64
	it    *item[K]
}

// before reports whether s comes out before t.
func (s delaySlot[K]) before(t delaySlot[K]) bool {
	return s.at < t.at || s.at == t.at && s.asked < t.asked
}

// slot makes the slot of an item that is asked for now.
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

// move puts an item whose time has changed where it belongs.
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

// alarm is the one timer of a queue. It is set for the earliest delayed add,
// or earlier: an add that is cancelled or superseded leaves it alone, and it
// then rings for nothing once. Its fields are guarded by the queue's mutex.
//
// The timer's function runs in a goroutine of its own that needs nothing but
// the queue's mutex. flights counts the rings that are set or under way, so
// that a shutdown can wait for the last.
type alarm struct {
	ring    func()
	timer   *time.Timer // created when it is first set
	at      int64
	armed   bool
	flights sync.WaitGroup
}

// set makes the alarm ring at the given time or earlier.
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

// stop makes sure that no ring begins any more; one may be under way.
func (a *alarm) stop() {
	if a.timer != nil && a.timer.Stop() {
		a.flights.Done()
	}
	a.armed = false
}

// due returns the time, on the queue's clock, that lies after from now.
func due(now int64, after time.Duration) int64 {
	if at := now + int64(after); at > now {
		return at
	}
	return math.MaxInt64
}

// schedule records a delayed add of an item that is owed nothing sooner.
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

// ring is the alarm's function: keys whose time has come wait from now on.
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

// Cancel takes back the delayed add of a key and reports whether there was
// one. A key that waits already, or that is running, is not affected.
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

// Reschedule moves the delayed add of a key to after from now, later or
// earlier than it was, and reports whether there was one. It is how a delayed
// add is postponed, since of two delayed adds the earlier wins. A wait of zero
// or less hands the key out at once.
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

// unschedule takes an item out of the heap, and lets the alarm go with the
// last: an hour's delay that was cancelled must not hold the queue for an hour.
func (q *Queue[K]) unschedule(it *item[K]) {
	q.delays.remove(it)
	if len(q.delays.slots) == 0 {
		q.alarm.stop()
	}
}
