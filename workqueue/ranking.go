package workqueue

import "slices"

// keptLevels is how many priority levels may stay without a key. Programs use
// a handful of priorities again and again; keeping their levels saves an
// allocation each time, while a program that makes up priorities as it goes
// must not leave a level behind for each.
const keptLevels = 16

// level is the keys that wait with one priority, first come first served.
type level[K comparable] struct {
	priority int
	keys     list[K]
}

// ranking orders the waiting keys by priority, and within a priority by
// arrival. Each step costs a search in the priorities in use, which are meant
// to be few; with one priority it is a plain FIFO.
type ranking[K comparable] struct {
	levels []*level[K] // highest priority first
	recent *level[K]   // the level of the last push
}

func (r *ranking[K]) push(it *item[K]) {
	l := r.recent
	if l == nil || l.priority != it.priority {
		l = r.at(it.priority)
		r.recent = l
	}
	it.level = l
	l.keys.pushBack(it)
}

func (r *ranking[K]) remove(it *item[K]) {
	l := it.level
	it.level = nil
	l.keys.remove(it)
	if l.keys.len > 0 || len(r.levels) <= keptLevels {
		return
	}
	if at, found := r.find(l.priority); found {
		r.levels = slices.Delete(r.levels, at, at+1)
	}
	if r.recent == l {
		r.recent = nil
	}
}

// first returns the key whose turn it is, or nil if none waits.
func (r *ranking[K]) first() *item[K] {
	for _, l := range r.levels {
		if l.keys.len > 0 {
			return l.keys.head
		}
	}
	return nil
}

func (r *ranking[K]) at(priority int) *level[K] {
	at, found := r.find(priority)
	if found {
		return r.levels[at]
	}
	l := &level[K]{priority: priority, keys: list[K]{lane: laneLevel}}
	r.levels = slices.Insert(r.levels, at, l)
	return l
}

func (r *ranking[K]) find(priority int) (int, bool) {
	return slices.BinarySearchFunc(r.levels, priority, func(l *level[K], p int) int {
		switch {
		case l.priority > p:
			return -1
		case l.priority < p:
			return 1
		default:
			return 0
		}
	})
}
