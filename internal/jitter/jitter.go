// Package jitter randomizes waits, to keep many clients from retrying at the same time.
//
// It uses the runtime's random source. Simulations, which must be reproducible, call [Seed]. All
// functions are safe for concurrent use.
package jitter

import (
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// seeded is nil unless [Seed] is in effect.
var seeded atomic.Pointer[source]

type source struct {
	mu   sync.Mutex
	rand *rand.Rand
}

// longest counts the calls to [Longest] that have not been undone.
var longest atomic.Int64

// Below returns a random duration in [0, d), or 0 if d is not positive.
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

// Longer returns d plus a random fraction of by, capped at the maximum time.Duration.
func Longer(d, by time.Duration) time.Duration {
	if more := Below(by); more <= math.MaxInt64-d {
		return d + more
	}
	return math.MaxInt64
}

// Around returns period, randomly varied by up to a tenth, to keep periodic work from coming due all at
// once.
func Around(period time.Duration) time.Duration {
	return Longer(period-period/10, period/5+1)
}

// Seed makes all random durations in this process depend only on seed, until restore is called. It is
// meant for simulations.
func Seed(seed uint64) (restore func()) {
	before := seeded.Swap(&source{rand: rand.New(rand.NewPCG(seed, 0x6a6974746572))})
	return func() { seeded.Store(before) }
}

// Longest makes every random duration the longest possible one, until each caller has called its restore
// function. It is meant for replays: a client receives the recorded responses in order if it waits at least
// as long as the recorded client did.
func Longest() (restore func()) {
	longest.Add(1)
	return sync.OnceFunc(func() { longest.Add(-1) })
}
