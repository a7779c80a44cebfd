package workqueue

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A ranking hands out the highest priority first, in the order of arrival, and keeps few levels
// without a key, however many priorities come and go. Its levels are a heap, so that a step costs
// the logarithm of the priorities in use.
func TestARankingIsAHeapOfLevels(t *testing.T) {
	var r ranking[int]
	rng := rand.New(rand.NewPCG(1, 1))
	var all []*item[int]
	for n := range 5000 {
		it := &item[int]{key: n, priority: rng.IntN(2000) - 1000}
		r.push(it)
		all = append(all, it)
		if n%3 == 0 {
			at := rng.IntN(len(all))
			r.remove(all[at])
			all = append(all[:at], all[at+1:]...)
		}
		for at, l := range r.waiting[:min(len(r.waiting), 64)] {
			require.Equal(t, at, l.at)
			require.Positive(t, l.keys.len)
			require.GreaterOrEqual(t, r.waiting[(at-1)/2].priority, l.priority)
		}
		require.LessOrEqual(t, len(r.levels), len(r.waiting)+keptLevels)
	}
	before := r.first()
	for it := before; it != nil; it = r.first() {
		require.True(t, it == before || it.priority < before.priority || it.priority == before.priority && it.key > before.key)
		before = it
		r.remove(it)
	}
	require.LessOrEqual(t, len(r.levels), keptLevels)
}

// When the last of many keys is gone, a queue and its limiter hold no more memory than new ones.
func TestAnOutageLeavesNoMemory(t *testing.T) {
	q := New(Options[int]{RateLimiter: NewExponential[int](ExponentialOptions{Base: time.Hour, Max: time.Hour})})
	const keys = 2 * keptRoom
	for key := range keys {
		q.AddRateLimited(key)
	}
	for key := range keys {
		q.Add(key)
	}
	for range keys {
		key, err := q.Get(t.Context())
		require.NoError(t, err)
		q.Forget(key)
		q.Done(key)
	}
	require.Len(t, q.items.chains, firstChains)
	require.Nil(t, q.delays.slots)
	require.LessOrEqual(t, q.free.len, maxFree)
	limiter := q.limiter.(*limited[int]).limiter.(*Exponential[int])
	require.Nil(t, limiter.counts)
	q.ShutDown()
}
