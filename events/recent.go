package events

import "container/heap"

// recent holds the series that are on the server, in a heap: the first is the one that has
// not repeated for longest.
type recent struct{ all seriesHeap }

func (r *recent) add(s *series) { heap.Push(&r.all, s) }

func (r *recent) remove(s *series) { heap.Remove(&r.all, s.place) }

// touch moves s to its place after a repetition.
func (r *recent) touch(s *series) { heap.Fix(&r.all, s.place) }

// over returns the series to forget if there are more than limit, or nil.
func (r *recent) over(limit int) *series {
	if len(r.all) <= limit {
		return nil
	}
	return r.all[0]
}

type seriesHeap []*series

func (h seriesHeap) Len() int           { return len(h) }
func (h seriesHeap) Less(i, j int) bool { return h[i].last.Before(h[j].last) }

func (h seriesHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *seriesHeap) Push(s any) {
	s.(*series).place = len(*h)
	*h = append(*h, s.(*series))
}

func (h *seriesHeap) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	s.place = -1
	(*h)[last] = nil
	*h = (*h)[:last]
	return s
}
