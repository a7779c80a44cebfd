// Package jitter draws the times by which waits of many clients are spread, so that
// they do not all come back at once.
//
// The draws come from the runtime's source of randomness. A simulation, which must play
// the same way twice, calls Seed. All functions may be called concurrently.
package jitter

import (
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// seeded is nil unless Seed was called.
var seeded atomic.Pointer[source]

type source struct {
	mu   sync.Mutex
	rand *rand.Rand
}

// longest is how many calls of Longest have not been restored.
var longest atomic.Int64

// Below returns a duration from 0 up to, but not including, d; 0 if d is not positive.
func Below(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	if longest.Load() > 0 {
		return d - 1
	}
	s := seeded.Load()
	if s == nil {
		return rand.N(d)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Duration(s.rand.Int64N(int64(d)))
}

// Longer returns d and a part of by, or the longest duration where that would be more.
func Longer(d, by time.Duration) time.Duration {
	if more := Below(by); more <= math.MaxInt64-d {
		return d + more
	}
	return math.MaxInt64
}

// Around returns a period up to a tenth longer or shorter, so that not everything comes
// due at once.
func Around(period time.Duration) time.Duration {
	return Longer(period-period/10, period/5+1)
}

// Seed makes all further draws of the process follow from seed, until restore is
// called. It is for simulations.
func Seed(seed uint64) (restore func()) {
	before := seeded.Swap(&source{rand: rand.New(rand.NewPCG(seed, 0x6a6974746572))})
	return func() { seeded.Store(before) }
}

// Longest makes all further draws of the process the longest that there can be, until each
// caller has called its restore. It is for replays: who waits for no shorter than was recorded
// comes to what was recorded in the same order.
func Longest() (restore func()) {
	longest.Add(1)
	return sync.OnceFunc(func() { longest.Add(-1) })
}
