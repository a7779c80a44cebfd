package share

import (
	"sync"
	"sync/atomic"
)

// seenHashes records hashes in order to tell repeated parts from new ones. It starts small and
// grows up to a limit. From then on, new hashes replace old ones.
//
// A mark is a hash whose lowest bits are replaced with the number of the object that had it.
// The hash determines a few adjacent slots that the mark may occupy.
type seenHashes struct {
	marks atomic.Pointer[[]atomic.Uint64] // their number is a power of two
	noted atomic.Int64                    // marks since the last growth; not counted at the final size

	mu sync.Mutex // held while marks is replaced
}

const (
	firstMarks = 1 << 7  // 1 KB
	lastMarks  = 1 << 15 // 256 KB
)

// hashed is the mask for the hash bits in a mark.
const hashed = ^uint64(0xff)

// repeats reports whether another object has had the hash before, and records that this object
// has it.
func (s *seenHashes) repeats(hash uint64, object uint8) bool {
	marks := s.marks.Load()
	if marks == nil {
		marks = s.grow(nil)
	}
	mark := hash&hashed | uint64(object)
	among := marksOf(*marks, mark)
	into := (*atomic.Uint64)(nil)
	for i := range among {
		switch before := among[i].Load(); {
		case before == mark:
			return false
		case before == 0:
			into = &among[i]
		case before&hashed == mark&hashed:
			among[i].Store(mark)
			return true
		}
	}
	if len(*marks) < lastMarks && (into == nil || s.noted.Add(1) > int64(len(*marks)/4)) {
		s.grow(marks)
		return s.repeats(hash, object)
	}
	if into == nil {
		into = &among[hash%places]
	}
	into.Store(mark)
	return false
}

// marksOf returns the slots for a mark.
func marksOf(marks []atomic.Uint64, mark uint64) []atomic.Uint64 {
	first := mark >> 8 & uint64(len(marks)-1) &^ (places - 1)
	return marks[first : first+places]
}

// grow replaces the marks from, unless another goroutine has already done so. Marks recorded concurrently may
// be lost.
func (s *seenHashes) grow(from *[]atomic.Uint64) *[]atomic.Uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.marks.Load(); now != from {
		return now
	}
	grown := make([]atomic.Uint64, firstMarks)
	if from != nil {
		grown = make([]atomic.Uint64, min(4*len(*from), lastMarks))
		for i := range *from {
			if mark := (*from)[i].Load(); mark != 0 {
				marksOf(grown, mark)[i%places].Store(mark) // marks that collide now collided before, so each finds a slot
			}
		}
	}
	s.noted.Store(0)
	s.marks.Store(&grown)
	return &grown
}
