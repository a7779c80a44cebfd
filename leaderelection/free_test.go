package leaderelection_test

import (
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// reader is a RoundTripper that can lose writes while reads succeed.
type reader struct {
	http.RoundTripper
	only atomic.Bool
}

func (n *reader) RoundTrip(req *http.Request) (*http.Response, error) {
	if n.only.Load() && req.Method != http.MethodGet {
		return nil, syscall.ECONNRESET
	}
	return n.RoundTripper.RoundTrip(req)
}

// A candidate that last saw the lease free, but could not take it, has missed who did. If the Lease is deleted
// then, the candidate waits, as it does for a holder that it knows.
func TestStandbyThatSawTheLeaseFreeDoesNotRecreateADeletedLease(t *testing.T) {
	for _, cutOff := range []bool{true, false} {
		inBubble(t, func(r *rig) {
			before := r.join(options{Identity: "before"})
			settle(time.Minute)
			before.stop() // and the lease is released
			settle(time.Second)

			b := &candidate{rig: r}
			b.Elector, b.network = r.elector(options{Identity: "b"})
			writes := &reader{RoundTripper: b.network.RoundTripper}
			b.network.RoundTripper = writes
			writes.only.Store(true)
			b.start(r.ctx)
			settle(time.Millisecond)
			require.Equal(r, 1, b.Status().Attempts, "it saw the lease free")
			b.network.refuse.Store(cutOff)

			a := r.joinSlow(options{Identity: "a"}, 0)
			settle(time.Millisecond)
			require.True(r, a.leads())
			if cutOff {
				settle(time.Minute)
			}
			settle(time.Until(a.Status().Renewed.Add(time.Millisecond)))
			require.NoError(r, r.srv.Delete(leases, key))
			b.network.refuse.Store(false)
			writes.only.Store(false)
			for range 400 {
				settle(10 * time.Millisecond)
				require.False(r, a.leads() && b.leads(), "two lead")
			}
			require.False(r, a.leads(), "it lost the Lease")
		})
	}
}
