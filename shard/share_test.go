package shard

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Each hash is in the share of exactly one of n processes.
func TestOrdinal(t *testing.T) {
	for _, hash := range []uint64{0, 1, 1 << 62, 1 << 63, 3 << 62, 1<<64 - 1} {
		owners := 0
		for i := range 3 {
			share := Ordinal(i, 3)
			owned, changed := share.Owned()
			require.Nil(t, changed)
			working, leave, err := share.Enter(t.Context(), hash)
			if !owned.HasHash(hash) {
				require.ErrorIs(t, err, ErrNotOurs)
				continue
			}
			require.NoError(t, err)
			owners++
			token, ok := TokenOf(working)
			require.True(t, ok)
			require.Equal(t, Token{Slot: SlotOf(hash, 3)}, token)
			term, ok := share.Term(token.Slot)
			require.True(t, ok)
			require.Equal(t, token, term)
			leave()
			require.Error(t, working.Err(), "the work is over")
		}
		require.Equal(t, 1, owners, "%x", hash)
	}
	require.True(t, Ordinal(1, 3) != Ordinal(1, 3), "two that can be compared")
	for _, wrong := range [][2]int{{-1, 3}, {3, 3}, {0, 0}} {
		require.Panics(t, func() { Ordinal(wrong[0], wrong[1]) })
	}
}
