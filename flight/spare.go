package flight

import "container/heap"

// spare is a heap of the tracks that have pieces. The track that can best spare a piece comes first: orphaned
// tracks first, then the track with the most pieces, then the least recently written one. The last criterion
// is brought up to date only when a track reaches the top of the heap, so that it costs nothing on writes.
type spare []*track

// add inserts t, or moves it if its pieces or its orphaned flag have changed.
func (s *spare) add(t *track) {
	switch {
	case len(t.pieces) == 0 && t.ranked:
		heap.Remove(s, t.rank)
	case len(t.pieces) == 0:
	case t.ranked:
		heap.Fix(s, t.rank)
	default:
		heap.Push(s, t)
	}
}

// best returns the track that can best spare a piece. The heap must not be empty.
func (s *spare) best() *track {
	t := (*s)[0]
	for t.seen != t.written {
		t.seen = t.written
		heap.Fix(s, 0)
		t = (*s)[0]
	}
	return t
}

func (s spare) Len() int { return len(s) }

func (s spare) Less(i, j int) bool {
	t, u := s[i], s[j]
	switch {
	case t.orphaned != u.orphaned:
		return t.orphaned
	case len(t.pieces) != len(u.pieces):
		return len(t.pieces) > len(u.pieces)
	}
	return t.seen < u.seen
}

func (s spare) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].rank, s[j].rank = i, j
}

func (s *spare) Push(t any) {
	last := t.(*track)
	last.rank, last.ranked, last.seen = len(*s), true, last.written
	*s = append(*s, last)
}

func (s *spare) Pop() any {
	n := len(*s) - 1
	last := (*s)[n]
	last.ranked, (*s)[n] = false, nil
	*s = (*s)[:n]
	return last
}
