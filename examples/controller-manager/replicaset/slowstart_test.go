package replicaset

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSlowStart(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		n, failing    int // the call that fails; 0: none
		calls, rounds int
	}{
		{0, 0, 0, 0},
		{1, 0, 1, 1},
		{100, 0, 100, 7}, // 1, 2, 4, 8, 16, 32, 37
		{100, 1, 1, 1},
		{100, 2, 3, 2}, // the round is ended, no other begins
		{100, 20, 31, 5},
		{5, 5, 5, 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			var calls atomic.Int32
			err := slowStart(c.n, func() error {
				call := calls.Add(1)
				time.Sleep(time.Second) // a round takes as long as one call
				if int(call) == c.failing {
					return boom
				}
				return nil
			})
			if c.failing > 0 {
				require.ErrorIs(t, err, boom, "%+v", c)
			} else {
				require.NoError(t, err, "%+v", c)
			}
			require.EqualValues(t, c.calls, calls.Load(), "%+v", c)
			require.Equal(t, time.Duration(c.rounds)*time.Second, time.Since(began), "%+v", c)
		})
	}
}
