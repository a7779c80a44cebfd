package workqueue

import "container/heap"

// keptLevels is the number of empty priority levels to keep. Most programs reuse a few priorities, and
// keeping their levels saves allocations. But a program that uses many different priorities must not
// leave a level behind for each of them.
const keptLevels = 16

// level contains the waiting keys with one priority, first come, first served.
type level[K comparable] struct {
	priority int
	keys     list[K]
	at       int // index in the heap of levels
}

// ranking orders the waiting keys by priority, and within a priority by arrival. An operation takes
// constant time, or time logarithmic in the number of priorities if a level gets its first key or
// loses its last. With a single priority it is a plain FIFO.
type ranking[K comparable] struct {
	levels  map[int]*level[K]
	waiting levelHeap[K] // levels that have keys
	recent  *level[K]    // level of the last push
}

func (r *ranking[K]) push(it *item[K]) {
	l := r.recent
	if l == nil || l.priority != it.priority {
		l = r.level(it.priority)
		r.recent = l
	}
	it.level = l
	l.keys.pushBack(it)
	if l.keys.len == 1 {
		heap.Push(&r.waiting, l)
	}
}

func (r *ranking[K]) remove(it *item[K]) {
	l := it.level
	it.level = nil
	l.keys.remove(it)
	if l.keys.len > 0 {
		return
	}
	heap.Remove(&r.waiting, l.at)
	if len(r.levels) <= len(r.waiting)+keptLevels {
		return
	}
	delete(r.levels, l.priority)
	if r.recent == l {
		r.recent = nil
	}
}

// first returns the next key, or nil if none is waiting.
func (r *ranking[K]) first() *item[K] {
	if len(r.waiting) == 0 {
		return nil
	}
	return r.waiting[0].keys.head
}

func (r *ranking[K]) level(priority int) *level[K] {
	l := r.levels[priority]
	if l == nil {
		l = &level[K]{priority: priority, keys: list[K]{lane: laneLevel}}
		if r.levels == nil {
			r.levels = make(map[int]*level[K])
		}
		r.levels[priority] = l
	}
	return l
}

// levelHeap is a heap with the highest priority first.
type levelHeap[K comparable] []*level[K]

func (h levelHeap[K]) Len() int           { return len(h) }
func (h levelHeap[K]) Less(i, j int) bool { return h[i].priority > h[j].priority }

func (h levelHeap[K]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

func (h *levelHeap[K]) Push(l any) {
	l.(*level[K]).at = len(*h)
	*h = append(*h, l.(*level[K]))
}

func (h *levelHeap[K]) Pop() any {
	last := len(*h) - 1
	l := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return l
}
