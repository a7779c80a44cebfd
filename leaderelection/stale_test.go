package leaderelection_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A leader whose lease has run out does not make the Lease anew, for another one may have
// had it meanwhile: it would take the lease back, with an old token.
func TestALeaseThatRanOutIsNotCreatedAgain(t *testing.T) {
	inBubble(t, func(r *rig) {
		a := r.joinSlow(options{Identity: "a"}, time.Minute)
		settle(time.Second)
		b := r.join(options{Identity: "b"})
		settle(time.Second)
		a.network.cut.Store(true)
		settle(30 * time.Second)
		require.Equal(r, []int64{2}, b.tokens())
		b.network.cut.Store(true) // so that it is a that looks first
		require.NoError(r, r.srv.Delete(leases, key))
		a.network.cut.Store(false)
		settle(4 * time.Second)
		require.ErrorContains(r, a.Status().Failure, "the Lease is gone, and had run out")
		b.network.cut.Store(false)
		settle(2 * time.Minute)
		require.True(r, b.leads(), "its lease was renewed in time")
		require.Equal(r, []int64{2}, b.tokens())
		require.Equal(r, []int64{1}, a.tokens())
	})
}
