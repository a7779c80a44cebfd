package workqueue

import "time"

// want is a key's pending hand-out.
type want uint8

const (
	wantNothing want = iota // none: the key is running for the last time
	wantLater               // one at a later time: the item is in the heap of delayed adds
	wantNow                 // one now: the item waits, or will wait after its Done if it is running
)

// A lane is one of the two lists that an item can be in at the same time.
type lane uint8

const (
	laneAge   lane = iota // waiting or running, longest first; unused while only delayed
	laneLevel             // waiting, within its priority
)

type links[K comparable] struct {
	prev, next *item[K]
}

// item is the state of a key. Items are reused; see Queue.admit.
type item[K comparable] struct {
	key   K
	hash  uint64
	chain *item[K] // the next item in its hash chain
	links [2]links[K]
	level *level[K] // the priority level it is waiting in

	at   int64 // when the delayed add is due, in nanoseconds on the queue's clock
	slot int   // index in the heap of delayed adds

	added    int64         // when the pending hand-out was requested
	started  int64         // when it was last handed out
	waited   time.Duration // from added to started
	priority int           // of the pending hand-out
	handed   int           // priority of the last hand-out
	want     want
	running  bool
}

// list is a doubly linked list threaded through one lane of the items, so that moving an item between lists
// does not allocate.
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

// maxFree is the number of items kept for reuse: enough for the workers and for frequent bursts.
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

// give returns an item to the free list. It clears the key, which may keep other memory alive; the other
// fields are set before the next use.
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
