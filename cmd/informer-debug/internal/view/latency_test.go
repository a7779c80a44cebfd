package view

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestHistogram compares quantiles with those of the sorted numbers.
func TestHistogram(t *testing.T) {
	const seed = 42
	r := rand.New(rand.NewPCG(seed, 0))
	var h histogram
	var all []time.Duration
	for range 5000 {
		d := time.Duration(r.Uint64() >> (r.IntN(50) + 8)) // all sizes, up to centuries
		all = append(all, d)
		h.add(d)
	}
	slices.Sort(all)
	for _, q := range []float64{0.01, 0.25, 0.5, 0.9, 0.99, 1} {
		want := all[int(q*float64(len(all)))-1]
		got := h.quantile(q)
		assert.GreaterOrEqual(t, got, want, "q %v, seed %d", q, seed)
		assert.LessOrEqual(t, float64(got), float64(want)*(1+1.0/16)+1, "q %v, seed %d", q, seed)
	}
	assert.Equal(t, all[len(all)-1], h.quantile(1))
	assert.Zero(t, (&histogram{}).quantile(0.5))
	h.add(-5)
	assert.Zero(t, h.quantile(0.0001))
}
