package membership_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/shard/membership"
)

// stranger writes a Lease that belongs to no member.
func (r *rig) stranger(name string, change func(*coordinationv1.Lease)) {
	r.Helper()
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, Labels: map[string]string{membership.GroupLabel: "carts"},
		Annotations: map[string]string{"shard.millrace.dev/layout": fmt.Sprintf("%d slots; ", r.slots), "shard.millrace.dev/slots": "", "shard.millrace.dev/weight": "1"},
	}, Spec: coordinationv1.LeaseSpec{HolderIdentity: new(name), LeaseDurationSeconds: new(int32(15))}}
	change(l)
	_, err := r.srv.Put(l)
	require.NoError(r, err)
}

// A Lease that cannot be parsed blocks all members while it is renewed, and is reported.
func TestALeaseThatCannotBeRead(t *testing.T) {
	for want, change := range map[string]func(l *coordinationv1.Lease){
		`"nonsense" is not an ordered set of slots of 8`: func(l *coordinationv1.Lease) { l.Annotations["shard.millrace.dev/slots"] = "nonsense" },
		"its weight is 0":     func(l *coordinationv1.Lease) { l.Annotations["shard.millrace.dev/weight"] = "0" },
		"its weight is 1001":  func(l *coordinationv1.Lease) { l.Annotations["shard.millrace.dev/weight"] = "1001" },
		"want at most 1h0m0s": func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = new(int32(1 << 30)) },
	} {
		inBubble(t, 8, func(r *rig) {
			renew := func(n int) {
				r.stranger("strange", func(l *coordinationv1.Lease) { change(l); l.Spec.LeaseTransitions = new(int32(n)) })
			}
			renew(0)
			a := r.join("a", membership.Options{})
			for n := range 10 {
				settle(10 * time.Second)
				renew(n + 1)
			}
			require.ErrorContains(t, a.Status().Refusal, "the Lease strange has the group's label but cannot be read")
			require.ErrorContains(t, a.Status().Refusal, want)
			owned, _ := a.Owned()
			require.Zero(t, owned.Len())
			settle(20 * time.Second)
			require.Nil(t, r.lease("strange"), "it has run out")
			require.NoError(t, a.Status().Refusal)
			require.Equal(t, map[string]int{"a": 8}, r.counts(a))
		})
	}
}

// Members that already work continue.
func TestALeaseThatCannotBeReadStopsNoWork(t *testing.T) {
	inBubble(t, 8, func(r *rig) {
		a := r.join("a", membership.Options{})
		settle(time.Second)
		r.stranger("strange", func(l *coordinationv1.Lease) { l.Annotations["shard.millrace.dev/slots"] = "9" })
		settle(5 * time.Second)
		require.Equal(t, map[string]int{"a": 8}, r.counts(a))
		require.NoError(t, a.Status().Refusal)
		require.Len(t, a.Status().Members, 2)
		require.Contains(t, a.Status().Members[1].Trouble, "its Lease strange cannot be read")
	})
}

// A Lease that was deleted does not keep its slots for longer than a member may be silent, whatever it said.
func TestDeletedLeaseReleasesItsSlots(t *testing.T) {
	inBubble(t, 8, func(r *rig) {
		r.stranger("strange", func(l *coordinationv1.Lease) {
			l.Annotations["shard.millrace.dev/slots"] = "0-3"
			l.Spec.LeaseDurationSeconds = new(int32(1 << 30))
		})
		a := r.join("a", membership.Options{})
		settle(time.Second)
		require.NoError(t, r.srv.Delete(leases, object.Key{Namespace: "shop", Name: "strange"}))
		settle(20 * time.Second)
		require.Equal(t, map[string]int{"a": 8}, r.counts(a))
	})
}

// A Lease with the name of ours that is not of the group is reported.
func TestForeignLeaseInPlaceOfOurs(t *testing.T) {
	inBubble(t, 8, func(r *rig) {
		name := fmt.Sprintf("carts-%016x", shard.Hash("a"))
		r.stranger(name, func(l *coordinationv1.Lease) { l.Labels = nil })
		a := r.join("a", membership.Options{})
		settle(time.Minute)
		require.ErrorContains(t, a.Status().Refusal, "the Lease "+name+" has the same name as ours")
		require.NoError(t, r.srv.Delete(leases, object.Key{Namespace: "shop", Name: name}))
		settle(2 * time.Second)
		require.Equal(t, map[string]int{"a": 8}, r.counts(a))
		require.NoError(t, a.Status().Refusal)
	})
}

// A member that is cut off does not say of others that they are silent.
func TestDisconnectedMemberReportsNoOtherAsSilent(t *testing.T) {
	inBubble(t, 8, func(r *rig) {
		a, b := r.join("a", membership.Options{}), r.join("b", membership.Options{})
		settle(2 * time.Second)
		twin := r.join("b", membership.Options{}) // it never has a Lease
		settle(2 * time.Second)
		seen := twin.Status().Seen
		require.NotZero(t, seen)
		for _, m := range []*member{b, twin} {
			m.network.cut()
			m.network.link.Cut()
		}
		settle(time.Minute)
		for _, m := range []*member{b, twin} {
			s := m.Status()
			require.Greater(t, time.Since(s.Seen), 50*time.Second)
			require.ErrorContains(t, s.Refusal, "this member has no valid Lease")
			for _, other := range s.Members {
				require.False(t, other.Identity == "a" && other.Expired, "%s says %+v", m.name, other)
			}
		}
		require.NoError(t, a.Status().Refusal)
	})
}

// A member without permission to list or write Leases reports it.
func TestNoRightToLeases(t *testing.T) {
	for _, denied := range [][]string{{"list", "watch"}, {"create"}} {
		inBubble(t, 8, func(r *rig) {
			r.srv.SetAuthorizer(func(a apiservertest.Attributes) bool { return !slices.Contains(denied, a.Verb) })
			a := r.join("a", membership.Options{})
			require.ErrorContains(t, a.Status().Refusal, "group carts: ")
			settle(time.Minute)
			require.ErrorContains(t, a.Status().Refusal, "forbidden")
			require.ErrorContains(t, a.Status().Refusal, "cannot "+denied[0])
			require.NotZero(t, a.Status().Attempts)
			r.srv.SetAuthorizer(nil)
			settle(time.Minute)
			require.NoError(t, a.Status().Refusal)
			require.Equal(t, map[string]int{"a": 8}, r.counts(a))
		})
	}
}

// The status shows the owners of slots, and which ones move, where to and since when.
func TestStatusOfASlot(t *testing.T) {
	inBubble(t, 16, func(r *rig) {
		a := r.join("a", membership.Options{})
		require.Zero(t, a.Slot(3).Owner)
		settle(time.Second)
		h := a.Slot(3)
		require.Equal(t, "a", h.Owner)
		require.Equal(t, "a", h.To)
		require.Zero(t, h.Waiting)
		since := h.Since
		for slot := range 16 {
			r.runs.Go(func() { a.work(slot, 8*time.Second, 0) })
		}
		settle(time.Second)
		b := r.join("b", membership.Options{})
		settle(4 * time.Second)
		for _, m := range []*member{a, b} {
			s := m.Status()
			require.Len(t, s.Moves, 1, "%+v", s.Moves)
			move := s.Moves[0]
			require.Equal(t, "a", move.From)
			require.Equal(t, "b", move.To)
			require.InDelta(t, 4*time.Second, time.Since(move.Since), float64(time.Second))
			require.True(t, move.Slots.Equal(s.Moving))
			slot := m.Slot(move.Slots.All()[0])
			require.Equal(t, move.To, slot.To)
			require.Equal(t, move.From, slot.Owner)
			require.Equal(t, move.Since, slot.Waiting)
			if m == a {
				require.Equal(t, move.Slots.Len(), move.Hands)
				require.Equal(t, 1, slot.Hands)
				require.Equal(t, since, slot.Since)
			} else {
				require.Zero(t, move.Hands)
			}
		}
		settle(10 * time.Second)
		require.Empty(t, a.Status().Moves)
		require.Equal(t, "b", a.Slot(b.Status().Owned.All()[0]).Owner)
		require.Zero(t, a.Slot(-1).Owner)
		require.Zero(t, a.Slot(16).Owner)
	})
}
