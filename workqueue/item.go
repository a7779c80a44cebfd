package workqueue

import "time"

// want says what the queue still owes a key.
type want uint8

const (
	wantNothing want = iota // nothing: the key is running for the last time
	wantLater               // one hand-out when its time comes: it is in the heap of delayed adds
	wantNow                 // one hand-out: it waits, or, if it is running, will wait after its Done
)

// A lane is one of the two lists that a key can be in at the same time.
type lane uint8

const (
	laneAge   lane = iota // waiting or running, the longest first; in neither while only delayed
	laneLevel             // waiting, within its priority
)

type links[K comparable] struct {
	prev, next *item[K]
}

// item is all that a queue knows of one key. Items are reused: see Queue.admit.
type item[K comparable] struct {
	key   K
	hash  uint64
	chain *item[K] // the next item in its chain of the table
	links [2]links[K]
	level *level[K] // the priority level that it waits in

	at   int64 // when the delayed add is due, in nanoseconds of the queue's clock
	slot int   // its place in the heap of delayed adds

	added    int64         // when the hand-out that is owed was asked for
	started  int64         // when it was handed out last
	waited   time.Duration // from added to started
	priority int           // of the hand-out that is owed
	handed   int           // priority of the last hand-out
	want     want
	running  bool
}

// list is a doubly linked list threaded through one lane of the items, so that
// moving a key from list to list allocates nothing.
type list[K comparable] struct {
	head, tail *item[K]
	len        int
	lane       lane
}

func (l *list[K]) pushBack(it *item[K]) {
	here := &it.links[l.lane&1]
	here.prev, here.next = l.tail, nil
	if l.tail == nil {
		l.head = it
	} else {
		l.tail.links[l.lane&1].next = it
	}
	l.tail = it
	l.len++
}

func (l *list[K]) remove(it *item[K]) {
	here := &it.links[l.lane&1]
	if here.prev == nil {
		l.head = here.next
	} else {
		here.prev.links[l.lane&1].next = here.next
	}
	if here.next == nil {
		l.tail = here.prev
	} else {
		here.next.links[l.lane&1].prev = here.prev
	}
	*here = links[K]{}
	l.len--
}

func (l *list[K]) next(it *item[K]) *item[K] {
	return it.links[l.lane&1].next
}

// maxFree is how many items are kept for reuse: enough for any number of
// workers, and for bursts of a size that comes often.
const maxFree = 1024

// freeItems are items without a key, chained by next in laneAge.
type freeItems[K comparable] struct {
	head *item[K]
	len  int
}

func (f *freeItems[K]) take() *item[K] {
	it := f.head
	if it == nil {
		return new(item[K])
	}
	f.head = it.links[laneAge].next
	it.links[laneAge].next = nil
	f.len--
	return it
}

// give takes back an item that is in no list, owed nothing and not running. Its
// key is cleared, because that may keep alive more than itself; what else is
// left in it is set whenever it is used.
func (f *freeItems[K]) give(it *item[K]) {
	if f.len >= maxFree {
		return
	}
	var none K
	it.key = none
	it.links[laneAge].next = f.head
	f.head = it
	f.len++
}
