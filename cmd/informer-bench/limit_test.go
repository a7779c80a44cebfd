package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBisectFindsTheSmallestLimit(t *testing.T) {
	for _, smallest := range []uint64{50, 333, 999, 1000} {
		probes := 0
		got := bisect(1000, func(limit uint64) bool {
			probes++
			return limit >= smallest
		})
		require.GreaterOrEqual(t, got, smallest)
		require.LessOrEqual(t, float64(got), closeEnough*float64(smallest)+1)
		require.Less(t, probes, 12)
	}
}
