package workqueue

import (
	"math/rand/v2"
	"testing"

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
