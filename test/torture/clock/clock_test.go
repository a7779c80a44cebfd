package clock

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSet(t *testing.T) {
	err := Set(0)
	if errors.Is(err, ErrFixed) {
		t.Skip(err)
	}
	require.NoError(t, err)
	defer func() { require.NoError(t, Set(0)) }()
	const margin = time.Minute
	for _, ahead := range []time.Duration{48 * time.Hour, -30 * 365 * 24 * time.Hour, 999_999_999, -999_999_999, 0} {
		began := time.Now()
		require.NoError(t, Set(0))
		machines := time.Now().Round(0) // without the monotonic clock
		require.NoError(t, Set(ahead))
		now := time.Now()
		require.Less(t, now.Nanosecond(), 1_000_000_000, "a carry")
		require.GreaterOrEqual(t, now.Nanosecond(), 0, "a borrow")
		require.InDelta(t, ahead, now.Round(0).Sub(machines), float64(margin), "the wall clock")
		require.InDelta(t, 0, time.Since(began), float64(margin), "the monotonic one")
	}
}
