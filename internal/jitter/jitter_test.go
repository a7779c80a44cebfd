package jitter

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func draws(n int) (all []time.Duration) {
	for range n {
		all = append(all, Below(time.Hour))
	}
	return all
}

func TestASeedRepeats(t *testing.T) {
	restore := Seed(7)
	first := draws(20)
	restore()
	restore = Seed(7)
	require.Equal(t, first, draws(20))
	restore()
	restore = Seed(8)
	defer restore()
	require.NotEqual(t, first, draws(20))
}

func TestDrawsWithoutASeedDiffer(t *testing.T) {
	require.NotEqual(t, draws(20), draws(20))
}

func TestTheLongestDraws(t *testing.T) {
	restore := Longest()
	require.Equal(t, time.Hour-1, Below(time.Hour))
	require.Zero(t, Below(1))
	require.Zero(t, Below(0))
	restore()
	require.NotEqual(t, draws(20), draws(20))
}

// Replays run at once, in tests that are parallel, and end in any order.
func TestTheLongestDrawsOfSeveral(t *testing.T) {
	first, second := Longest(), Longest()
	first()
	first()
	require.Equal(t, time.Hour-1, Below(time.Hour))
	second()
	require.NotEqual(t, draws(20), draws(20))
}

func TestDrawsStayBelow(t *testing.T) {
	for _, seed := range []bool{false, true} {
		if seed {
			defer Seed(1)()
		}
		for range 1000 {
			d := Below(3)
			require.True(t, d >= 0 && d < 3, d)
		}
		require.Zero(t, Below(1))
		require.Zero(t, Below(0))
		require.Zero(t, Below(-time.Second))
		require.GreaterOrEqual(t, Below(math.MaxInt64), time.Duration(0))
	}
}

func TestNoDrawExceedsTheLongest(t *testing.T) {
	const never = math.MaxInt64
	for range 1000 {
		require.GreaterOrEqual(t, Longer(never, never), time.Duration(never))
		require.GreaterOrEqual(t, Longer(never-1, 3), time.Duration(never-1))
		require.GreaterOrEqual(t, Around(never), time.Duration(never/10*9))
		around := Around(time.Hour)
		require.GreaterOrEqual(t, around, 54*time.Minute)
		require.LessOrEqual(t, around, 66*time.Minute)
	}
	require.Zero(t, Longer(0, 0))
	require.Zero(t, Around(0))
}
