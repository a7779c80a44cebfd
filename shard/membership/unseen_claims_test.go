package membership_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/shard/membership"
)

// a is cut off just before b claims slots. An administrator deletes b's Lease, which b, cut off too, does not
// notice, and keeps working. When a is back, a list shows that b's Lease is gone, but not what it claimed last.
func TestS01_ADeletedLeaseWhoseLastClaimsWereNotSeen(t *testing.T) {
	inBubble(t, 8, func(r *rig) {
		a := r.join("a", membership.Options{})
		settle(5 * time.Second)
		require.Equal(t, map[string]int{"a": 8}, r.counts(a))
		b := r.join("b", membership.Options{})
		for l := r.lease("b"); l == nil || l.Annotations["shard.millrace.dev/slots"] == ""; l = r.lease("b") {
			time.Sleep(time.Millisecond)
		}
		a.network.cut()
		settle(time.Second)
		owned, _ := b.Owned()
		require.NotZero(t, owned.Len())
		for _, slot := range owned.All() {
			r.runs.Go(func() { b.work(slot, time.Minute, 0) })
		}
		settle(100 * time.Millisecond)
		b.network.cut()
		require.NoError(t, r.srv.Delete(leases, r.keyOf(r.lease("b"))))
		r.srv.RestartCold(0)
		a.network.link.Cut()
		a.network.heal()
		for range 100 {
			for _, slot := range owned.All() {
				a.work(slot, time.Millisecond, 0)
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
}
