package jitter

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A client with a recorded time for its next request comes at that time, as far as its options allow.
func TestRecalledWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer Longest()()
		var r Recall
		require.Equal(t, 5*time.Second-1, r.Below(time.Minute, 5*time.Second), "nothing is known")
		for next, want := range map[time.Duration]time.Duration{
			62 * time.Second: 2 * time.Second, time.Minute: 0, time.Second: 0, -time.Hour: 0, time.Hour: 5*time.Second - 1,
		} {
			RecallOf(WithRecall(t.Context(), &r)).Tell(time.Now().Add(next), time.Hour)
			require.Equal(t, want, r.Below(time.Minute, 5*time.Second), next)
			require.Zero(t, r.Below(time.Minute, 0))
			require.Equal(t, time.Hour, r.Lifetime(time.Minute))
		}
		r.Tell(time.Time{}, 0)
		require.Equal(t, 5*time.Second-1, r.Below(time.Minute, 5*time.Second))
		require.Equal(t, time.Minute, r.Lifetime(time.Minute))
		var none *Recall
		RecallOf(context.Background()).Tell(time.Now(), time.Hour)
		require.Equal(t, 5*time.Second-1, none.Below(time.Minute, 5*time.Second))
		require.Equal(t, time.Minute, none.Lifetime(time.Minute))
	})
}
