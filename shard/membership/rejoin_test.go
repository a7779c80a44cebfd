package membership_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/shard/membership"
)

// A member that has lost its Lease to another program, but finds it in its place, waits until it expires, as
// the message says, and then joins again.
func TestS02_OwnLeaseTakenOnceByAnotherProgram(t *testing.T) {
	inBubble(t, 8, func(r *rig) {
		a := r.join("a", membership.Options{})
		settle(5 * time.Second)
		require.Equal(t, map[string]int{"a": 8}, r.counts(a))
		l := r.lease("a")
		l.Spec.AcquireTime = new(metav1.NowMicro()) // once; nobody renews it
		_, err := r.srv.Put(l)
		require.NoError(t, err)
		settle(10 * time.Minute)
		require.Equal(t, map[string]int{"a": 8}, r.counts(a), "%v", a.Status().Failure)
	})
}

// b expels a, which is cut off, but crashes after the first of its two requests. Then a is back, alone.
func TestS02_PeerCrashesWhileItExpels(t *testing.T) {
	inBubble(t, 8, func(r *rig) {
		a, b := r.join("a", membership.Options{}), r.join("b", membership.Options{})
		settle(5 * time.Second)
		require.Len(t, r.counts(a, b), 2)
		var crashed atomic.Bool
		r.srv.SetAuthorizer(func(at apiservertest.Attributes) bool {
			if at.Resource == "leases" && at.Verb == "delete" && !crashed.Swap(true) {
				b.network.cut()
				return false
			}
			return true
		})
		a.network.cut()
		for !crashed.Load() {
			settle(100 * time.Millisecond)
		}
		b.stop()
		a.network.heal()
		settle(10 * time.Minute)
		require.Equal(t, map[string]int{"a": 8}, r.counts(a), "%v", a.Status().Failure)
	})
}
