package indexer

import (
	"iter"
	"slices"
	"sync/atomic"

	"github.com/millrace-dev/millrace/object"
)

// snapshot is the immutable slice that readers walk, made on demand. It is
// dropped under the write lock and made under the read lock, so that a slice
// never outlives the set that it was made of. Two readers may make it at the
// same time; they make the same.
type snapshot[T object.Object] struct {
	slice atomic.Pointer[[]T]
}

func (s *snapshot[T]) drop() {
	if s.slice.Load() != nil {
		s.slice.Store(nil)
	}
}

// of returns the slice of what entries yields, n of them.
func (s *snapshot[T]) of(n int, entries iter.Seq[*entry[T]]) []T {
	if made := s.slice.Load(); made != nil {
		return *made
	}
	made := make([]T, 0, n)
	for e := range entries {
		made = append(made, e.object)
	}
	made = slices.Clip(made)
	s.slice.Store(&made)
	return made
}

// bucket is the set of entries that share one index value.
type bucket[T object.Object] struct {
	entries map[*entry[T]]struct{}
	snapshot[T]
}

func (b *bucket[T]) objects() []T {
	return b.of(len(b.entries), func(yield func(*entry[T]) bool) {
		for e := range b.entries {
			if !yield(e) {
				return
			}
		}
	})
}
