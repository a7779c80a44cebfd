package membership_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/millrace-dev/millrace/shard/membership"
)

// A rolling update changes the layout, and its new member waits, as it should. Meanwhile one more member of the
// old layout joins, for example because a Pod of the old ReplicaSet was evicted and replaced.
func TestS02_OldMemberJoinsWhileANewLayoutWaits(t *testing.T) {
	inBubble(t, 16, func(r *rig) {
		a, b := r.join("a", membership.Options{Layout: "uid"}), r.join("b", membership.Options{Layout: "uid"})
		settle(5 * time.Second)
		c := r.join("c", membership.Options{Layout: "namespace"})
		settle(5 * time.Second)
		require.Error(t, c.Status().Refusal)
		require.Len(t, r.counts(a, b), 2)
		d := r.join("d", membership.Options{Layout: "uid"})
		settle(10 * time.Minute)
		all := r.counts(a, b, c, d)
		require.Zero(t, all[""], "%v, d: %v", all, d.Status().Refusal)
	})
}

// A foreign Lease with the group's label, which cannot be read, blocks newcomers. It must not take slots from the
// members that already work.
func TestS02_NewcomerJoinsWhileALeaseCannotBeRead(t *testing.T) {
	inBubble(t, 16, func(r *rig) {
		a := r.join("a", membership.Options{})
		settle(5 * time.Second)
		renew := func(n int) {
			r.stranger("strange", func(l *coordinationv1.Lease) {
				l.Annotations["shard.millrace.dev/slots"], l.Spec.LeaseTransitions = "nonsense", new(int32(n))
			})
		}
		renew(0)
		settle(5 * time.Second)
		require.Equal(t, map[string]int{"a": 16}, r.counts(a))
		b := r.join("b", membership.Options{})
		for n := range 20 {
			renew(n + 1)
			settle(10 * time.Second)
		}
		all := r.counts(a, b)
		require.Zero(t, all[""], "%v, b: %v", all, b.Status().Refusal)
	})
}
