package controller

import "container/heap"

// recent is the event series that are on the server, as a heap: the one that has
// been quiet for longest is the first.
type recent struct{ all recentHeap }

func (r *recent) add(s *eventSeries) { heap.Push(&r.all, s) }

func (r *recent) remove(s *eventSeries) { heap.Remove(&r.all, s.place) }

// touch says that s has repeated.
func (r *recent) touch(s *eventSeries) { heap.Fix(&r.all, s.place) }

// over returns the series that is to be forgotten when there are more than limit,
// nil when there are not.
func (r *recent) over(limit int) *eventSeries {
	if len(r.all) <= limit {
		return nil
	}
	return r.all[0]
}

type recentHeap []*eventSeries

func (h recentHeap) Len() int           { return len(h) }
func (h recentHeap) Less(i, j int) bool { return h[i].last.Before(h[j].last) }

func (h recentHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *recentHeap) Push(s any) {
	s.(*eventSeries).place = len(*h)
	*h = append(*h, s.(*eventSeries))
}

func (h *recentHeap) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	s.place = -1
	(*h)[last] = nil
	*h = (*h)[:last]
	return s
}
