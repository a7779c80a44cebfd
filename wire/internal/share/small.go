package share

import "sync/atomic"

// smallValues are numbers and booleans that optional fields often point to.
type smallValues struct {
	bools  [2]bool
	int32s smallNumbers[int32]
	int64s smallNumbers[int64]
}

func newSmallValues() *smallValues { return &smallValues{bools: [2]bool{false, true}} }

// smallNumbers holds the numbers below tooLarge. They are allocated on demand, a few at a time.
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

// Bool returns a pointer to v that all objects share.
func (p *Pool) Bool(v bool) *bool {
	small := p.small.Load()
	if v {
		return &small.bools[1]
	}
	return &small.bools[0]
}

// Int32 returns a pointer to v that all objects share, or nil if v is negative or too
// large.
func (p *Pool) Int32(v int32) *int32 {
	if uint32(v) >= tooLarge {
		return nil
	}
	return p.small.Load().int32s.at(v)
}

// Int64 is like Int32, but for 64 bits.
func (p *Pool) Int64(v int64) *int64 {
	if uint64(v) >= tooLarge {
		return nil
	}
	return p.small.Load().int64s.at(v)
}

// Bool returns a pointer to v, which may be shared with other objects.
func (s *Sharer) Bool(v bool) *bool {
	if s.Pool == nil {
		return new(v)
	}
	return s.Pool.Bool(v)
}

// Int32 returns a pointer to v, which may be shared with other objects.
func (s *Sharer) Int32(v int32) *int32 {
	if s.Pool != nil {
		if shared := s.Pool.Int32(v); shared != nil {
			return shared
		}
	}
	return new(v)
}

// Int64 is like Int32, but for 64 bits.
func (s *Sharer) Int64(v int64) *int64 {
	if s.Pool != nil {
		if shared := s.Pool.Int64(v); shared != nil {
			return shared
		}
	}
	return new(v)
}
