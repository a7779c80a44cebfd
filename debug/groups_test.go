package debug_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace-dev/millrace/controllertest"
	"github.com/millrace-dev/millrace/debug"
	"github.com/millrace-dev/millrace/factory"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/object"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/shard/membership"
)

var _ debug.Membership = (*membership.Group)(nil)

// company is a group with a configurable status.
type company struct {
	shard.Share
	status  membership.Status
	holding membership.Holding
}

func (c *company) Status() membership.Status { return c.status }
func (c *company) Slot(n int) membership.Holding {
	h := c.holding
	h.Slot = n
	return h
}

// A process shows the members of its group, who owns what, and what is moving.
func TestAGroup(t *testing.T) {
	now := time.Now()
	c := &company{Share: shard.Ordinal(0, 1), status: membership.Status{
		Namespace: "shop", Group: "carts", Identity: "m1", Slots: 8, Layout: "uid", Seen: now, Owned: shard.NewSlots(8, 0, 1, 2), Orphans: shard.NewSlots(8, 7),
		Members: []membership.Member{
			{Identity: "m1", Weight: 1, Claims: shard.NewSlots(8, 0, 1, 2, 3, 4), Wanted: 4, Lease: "carts-1"},
			{Identity: "m2", Weight: 1, Claims: shard.NewSlots(8, 5, 6), Wanted: 4, Silent: 3 * time.Second},
			{Identity: "m3", Claims: shard.AllSlots(8), Trouble: "it works with other slots"},
		},
		Moves:   []membership.Move{{From: "m1", To: "m2", Slots: shard.NewSlots(8, 3, 4), Since: now.Add(-time.Hour), Hands: 3}},
		Refusal: errors.New("refused"), Attempts: 2, Failure: &membership.Failure{Err: errors.New("no route"), When: now},
	}}
	process := debug.New(debug.Options{Groups: func() []debug.Membership { return []debug.Membership{c, &company{}} }})
	s, err := process.Client().Status(t.Context())
	require.NoError(t, err)
	require.Len(t, s.Groups, 2)
	g := s.Groups[0]
	require.Equal(t, "shop", g.Namespace)
	require.Equal(t, "0-2", g.Owned)
	require.Equal(t, "7", g.Orphans)
	require.Equal(t, 1, g.Orphaned)
	require.InDelta(t, 0.25, g.Imbalance, 0.001)
	require.Equal(t, debug.Member{Identity: "m1", Lease: "carts-1", Weight: 1, Slots: "0-4", Has: 5, Wants: 4}, g.Members[0])
	require.Equal(t, 3*time.Second, g.Members[1].Silent)
	require.Zero(t, g.Members[2].Has, "what it claims counts as all, and is not its")
	require.Equal(t, "3-4", g.Moves[0].Slots)
	require.Equal(t, 3, g.Moves[0].Hands)
	require.GreaterOrEqual(t, g.Moves[0].Waited, time.Hour)
	require.Equal(t, "refused", g.Refusal)
	require.Equal(t, "no route", g.Failure)

	broken := debug.New(debug.Options{Groups: func() []debug.Membership { return []debug.Membership{(*company)(nil)} }})
	s, err = broken.Client().Status(t.Context())
	require.NoError(t, err)
	require.Contains(t, s.Groups[0].Refusal, "the status of a group panicked")
}

// Why names the replica that owns an object, even one that this process does not have.
func TestWhyNamesTheOwner(t *testing.T) {
	controllertest.Run(t, func(e *controllertest.Env) {
		now := time.Now()
		c := &company{Share: shard.Ordinal(0, 1), status: membership.Status{Group: "carts", Identity: "m1", Slots: 8, Seen: now}}
		recorder := flight.New(flight.DefaultSize)
		factory.InformerWith(e.Factory, factory.For[*corev1.Pod]{Scope: factory.Scope{Shard: shard.Scope{Share: c}}})
		controllertest.Put(e, pod("shop", "p", ""))
		e.Start()
		e.Settle(time.Second)
		process := debug.New(debug.Options{
			Informers: debug.Of(e.Factory), Recorder: recorder, Groups: func() []debug.Membership { return []debug.Membership{c} },
		}).Client()
		for _, one := range []struct {
			name    string
			holding membership.Holding
			want    debug.Cause
			text    string
		}{
			{"ours", membership.Holding{Owner: "m1", To: "m1", Since: now.Add(-time.Minute)}, debug.Owned, `^shop/p has been owned by m1 \(this replica\) for 1m1s \(slot \d of the group carts\)\.$`},
			{"another's", membership.Holding{Owner: "m2", To: "m2", Since: now}, debug.Elsewhere, `^shop/p is owned by the member m2, not by m1 \(this replica\): it has owned slot \d of the group carts for at least 1s\.$`},
			{"from us", membership.Holding{Owner: "m1", To: "m2", Since: now, Waiting: now.Add(-2 * time.Second), Hands: 1}, debug.HandedOver, `^shop/p is being handed over from m1 \(this replica\) to m2 \(slot \d of the group carts\): it has waited 3s for m1 to finish one piece of work\.$`},
			{"to us", membership.Holding{Owner: "m2", To: "m1", Since: now, Waiting: now}, debug.HandedOver, `from m2 to m1 \(this replica\) \(slot \d of the group carts\): it has waited 1s for m2 to finish its work in progress\.$`},
			{"nobody's", membership.Holding{To: "m2", Since: now}, debug.Unowned, `^shop/p has had no owner for 1s: slot \d of the group carts is assigned to m2, which has not taken it\.$`},
			{"nobody's, for good", membership.Holding{Since: now}, debug.Unowned, `^shop/p has had no owner for 1s: slot \d of the group carts is not assigned to any member\.$`},
		} {
			c.holding = one.holding
			why, err := process.Why(e.Context(), "pods", "", object.Key{Namespace: "shop", Name: "p"})
			require.NoError(e, err)
			require.Equal(e, one.want, why.Reasons[0].Cause, "%s: %+v", one.name, why.Reasons)
			require.Regexp(e, one.text, why.Reasons[0].Text)
			require.Empty(e, why.Unowned)

			// The hash is needed for objects that are not here.
			missing := object.Key{Namespace: "shop", Name: "missing"}
			why, err = process.Why(e.Context(), "pods", "", missing)
			require.NoError(e, err)
			require.Equal(e, []debug.Sharing{{Informer: "pods", Key: "uid", Group: "carts"}}, why.Unowned)
			why, err = process.WhyOf(e.Context(), "pods", "", missing, shard.Hash("u"))
			require.NoError(e, err)
			require.Empty(e, why.Unowned)
			require.Contains(e, causesOf(why), one.want)
		}
		c.status.Seen, c.status.Refusal = time.Time{}, errors.New("no right to leases")
		why, err := process.Why(e.Context(), "pods", "", object.Key{Namespace: "shop", Name: "p"})
		require.NoError(e, err)
		require.Equal(e, "The owner of shop/p is unknown: no right to leases.", why.Reasons[0].Text)
		_, err = process.Why(e.Context(), "pods", "none", object.Key{Namespace: "shop", Name: "p"})
		refused, ok := errors.AsType[*debug.RefusedError](err)
		require.True(e, ok && refused.Code == http.StatusNotFound)
	})
}

func causesOf(w *debug.Why) (all []debug.Cause) {
	for _, r := range w.Reasons {
		all = append(all, r.Cause)
	}
	return all
}
