package sharding

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/shard"
)

// A request waits longer the longer its slot is not held, and starts again with the next term.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w Waits
		term := shard.Token{Slot: 3, Epoch: 7}
		require.Equal(t, Soon, w.Next(term))
		time.Sleep(4 * time.Second)
		require.Equal(t, time.Second, w.Next(term))
		require.Equal(t, Soon, w.Next(shard.Token{Slot: 4, Epoch: 7}))
		time.Sleep(time.Hour)
		require.Equal(t, Late, w.Next(term))
		term.Epoch++
		require.Equal(t, Soon, w.Next(term))
	})
}

func TestRefused(t *testing.T) {
	var w Waits
	share := shard.Ordinal(0, 2)
	owned, _ := share.Owned()
	ours, others := owned.Ranges()[0].First, shard.AllSlots(owned.Total()).Without(owned).Ranges()[0].First
	require.Equal(t, Soon, w.refused(share, ours))
	require.Zero(t, w.refused(share, others))
}

func TestOver(t *testing.T) {
	for cause, want := range map[error]bool{shard.ErrLost: true, fmt.Errorf("it: %w", shard.ErrMoved): true, nil: false} {
		ctx, cancel := context.WithCancelCause(t.Context())
		require.False(t, Over(ctx))
		cancel(cause)
		require.Equal(t, want, Over(ctx))
	}
}

// If caches held a slot in between and no longer do, for example after a namespace was added, the wait
// starts again.
func TestWaitStartsAgainAfterASlotWasHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w Waits
		enter := func(held bool) time.Duration {
			in, wait, err := w.Enter(t.Context(), shard.Ordinal(0, 1), 7, func(uint64) bool { return held })
			require.NoError(t, err)
			require.Equal(t, held, in != nil)
			return wait
		}
		require.Equal(t, Soon, enter(false))
		time.Sleep(time.Second)
		require.Equal(t, time.Second/4, enter(false))
		require.Zero(t, enter(true))
		time.Sleep(time.Hour)
		require.Equal(t, Soon, enter(false))
	})
}
