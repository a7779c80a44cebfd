package wire

import "sync/atomic"

// smallValues are the numbers and truth values that optional fields point at
// again and again.
type smallValues struct {
	bools  [2]bool
	int32s smallNumbers[int32]
	int64s smallNumbers[int64]
}

func newSmallValues() *smallValues { return &smallValues{bools: [2]bool{false, true}} }

// smallNumbers are the numbers below tooLarge. They are made when they are asked
// for, some at a time.
type smallNumbers[V int32 | int64] [tooLarge / atATime]atomic.Pointer[[atATime]V]

const (
	tooLarge = 1024
	atATime  = 64
)

// at returns a pointer to v, which is less than tooLarge.
func (s *smallNumbers[V]) at(v V) *V {
	some := s[v/atATime].Load()
	if some == nil {
		some = s.make(v / atATime)
	}
	return &some[v%atATime]
}

func (s *smallNumbers[V]) make(n V) *[atATime]V {
	made := new([atATime]V)
	for i := range made {
		made[i] = n*atATime + V(i)
	}
	if !s[n].CompareAndSwap(nil, made) {
		return s[n].Load()
	}
	return made
}
