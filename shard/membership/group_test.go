package membership_test

import (
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/reflector"
	"github.com/millrace-dev/millrace/shard"
	"github.com/millrace-dev/millrace/shard/membership"
)

func TestS02_LeavingMemberHandsOverItsSlots(t *testing.T) {
	inBubble(t, 256, func(r *rig) {
		a := r.join("a", membership.Options{})
		settle(time.Second)
		require.Equal(t, map[string]int{"a": 256}, r.counts(a))
		b := r.join("b", membership.Options{})
		c := r.join("c", membership.Options{Weight: 2})
		settle(time.Second)
		got := r.counts(a, b, c)
		require.Len(t, got, 3)
		require.Greater(t, got["c"], max(got["a"], got["b"]))

		before := r.owners(a, b, c)
		b.stop()
		settle(time.Second)
		require.True(t, b.ended.Load())
		require.Nil(t, r.lease("b"))
		after := r.owners(a, c)
		moved := 0
		for slot := range before {
			if before[slot] != after[slot] && before[slot] != "b" {
				moved++
			}
		}
		require.LessOrEqual(t, moved, 256*3/100)
	})
}

func TestS01_WorkIsFinishedBeforeASlotMoves(t *testing.T) {
	inBubble(t, 16, func(r *rig) {
		a := r.join("a", membership.Options{})
		settle(time.Second)
		for slot := range 16 {
			r.runs.Go(func() { a.work(slot, 5*time.Second, 0) })
		}
		settle(0)
		b := r.join("b", membership.Options{})
		settle(2 * time.Second)
		owned, _ := b.Owned()
		require.Zero(t, owned.Len(), "work goes on")
		require.NotZero(t, a.Status().Leaving.Len())
		settle(4 * time.Second)
		require.Equal(t, 2, len(r.counts(a, b)))

		// Work that does not end has its context ended.
		for slot := range 16 {
			r.runs.Go(func() { b.work(slot, time.Hour, time.Second) })
		}
		settle(0)
		b.stop()
		settle(9 * time.Second)
		require.False(t, b.ended.Load())
		settle(3 * time.Second)
		require.True(t, b.ended.Load())
		require.Equal(t, map[string]int{"a": 16}, r.counts(a))
	})
}

func TestS02_ACrashIsNoticed(t *testing.T) {
	inBubble(t, 32, func(r *rig) {
		a, b := r.join("a", membership.Options{}), r.join("b", membership.Options{})
		settle(2 * time.Second)
		r.owners(a, b)
		b.network.cut()
		r.runs.Go(func() { b.work(b.Status().Owned.All()[0], time.Hour, 4*time.Second) })
		settle(11 * time.Second)
		owned, _ := b.Owned()
		require.Zero(t, owned.Len(), "its deadline has passed")
		require.ErrorContains(t, b.Status().Lost, "not renewed for 10s")
		settle(6 * time.Second)
		require.Equal(t, map[string]int{"a": 32}, r.counts(a))
		b.network.heal()
		settle(12 * time.Second)
		require.Len(t, r.counts(a, b), 2)
	})
}

// A member whose watch tells nothing any more, because its connection is half open, learns so
// from its own renewals.
func TestS02_WatchThatDeliversNothingIsReopened(t *testing.T) {
	inBubble(t, 32, func(r *rig) {
		a, b := r.join("a", membership.Options{}), r.join("b", membership.Options{})
		settle(10 * time.Second)
		r.owners(a, b)
		require.Positive(t, a.network.link.Vanish())
		settle(time.Second)
		b.stop()
		b.network.cut()
		settle(20 * time.Second)
		require.ErrorIs(t, a.Status().Failure, reflector.ErrDeaf)
		require.ErrorContains(t, a.Status().Failure, "our lease was renewed 1")
		settle(15 * time.Second)
		require.Equal(t, map[string]int{"a": 32}, r.counts(a))
		require.Zero(t, a.Status().Attempts)
	})
}

// A member behind a proxy that accepts watches and delivers nothing gets no slots, and those of a member that has left go
// to others. It gets slots once its watch works.
func TestS02_ADeafMemberIsLeftOut(t *testing.T) {
	inBubble(t, 32, func(r *rig) {
		a, b := r.join("a", membership.Options{}), r.join("b", membership.Options{})
		settle(10 * time.Second)
		c := r.joinOver("c", membership.Options{}, func(n *network) { n.deaf.Store(true) })
		settle(30 * time.Second)
		refused := 0
		for range 30 {
			settle(time.Minute)
			require.Zero(t, r.counts(a, b, c)[""], "each slot has an owner")
			if c.Status().Refusal != nil { // it is nil for a moment after each list
				refused++
			}
		}
		require.Greater(t, refused, 15)
		b.stop()
		settle(30 * time.Second)
		require.Equal(t, map[string]int{"a": 32}, r.counts(a, c))
		c.network.deaf.Store(false)
		c.network.link.Vanish()
		settle(time.Minute)
		require.Len(t, r.counts(a, c), 2)
		require.NotContains(t, r.counts(a, c), "")
		require.NoError(t, c.Status().Refusal)
	})
}

// A deaf member that leaves while its work goes on writes its Lease no more often than others.
func TestADeafMemberThatLeavesWritesRarely(t *testing.T) {
	inBubble(t, 32, func(r *rig) {
		a, b := r.join("a", membership.Options{}), r.join("b", membership.Options{Patience: time.Minute})
		settle(10 * time.Second)
		r.owners(a, b)
		r.runs.Go(func() { b.work(b.Status().Owned.All()[0], time.Minute, time.Minute) })
		b.network.deaf.Store(true)
		b.network.link.Vanish()
		settle(40 * time.Second)
		b.stop()
		before := r.srv.Stats().Requests("update", "leases")
		settle(10 * time.Second)
		require.LessOrEqual(t, r.srv.Stats().Requests("update", "leases")-before, 20)
	})
}

// A deaf member gives up the slots that it claims and cannot work in.
func TestS02_ADeafMemberClaimsNothingForLong(t *testing.T) {
	inBubble(t, 32, func(r *rig) {
		a, b := r.join("a", membership.Options{}), r.join("b", membership.Options{})
		settle(10 * time.Second)
		r.owners(a, b)
		b.network.deaf.Store(true)
		b.network.link.Vanish()
		b.network.cut()
		settle(12 * time.Second)
		b.network.heal()
		settle(time.Minute)
		require.Zero(t, r.counts(a, b)[""])
	})
}

// A member whose writes fail is not deaf.
func TestAMemberWhoseWritesFailIsNotDeaf(t *testing.T) {
	inBubble(t, 32, func(r *rig) {
		var log strings.Builder
		a := r.join("a", membership.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		settle(10 * time.Second)
		r.owners(a)
		r.srv.Faults().Add(apiservertest.Fault{Verb: "update", Resource: "leases", Do: []apiservertest.Action{apiservertest.Fail{Code: 503}}})
		settle(25 * time.Second)
		r.srv.Faults().Clear()
		settle(10 * time.Second)
		r.owners(a)
		a.stop()
		settle(10 * time.Second)
		require.NotContains(t, log.String(), "does not show our renewals")
	})
}

// If a transport ignores contexts, a member may leave while the maximum number of writes of its Lease
// and the deletion of another one are in progress.
func TestL23_CloseWaitsForRequestsInProgress(t *testing.T) {
	inBubble(t, 8, func(r *rig) {
		a, b := r.join("a", membership.Options{}), r.join("b", membership.Options{})
		settle(4 * time.Second)
		b.network.cut()
		settle(12 * time.Second)
		a.network.slow.Store(int64(2 * time.Minute))
		for range 60 {
			if settle(time.Second); a.network.held.Load() == 8 {
				break
			}
		}
		a.stop()
		settle(10 * time.Second)
		require.EqualValues(t, 1+8, a.network.held.Load())
		settle(2 * time.Minute)
		require.True(t, a.ended.Load())
	})
}

func TestTwoMembersWithOneIdentity(t *testing.T) {
	inBubble(t, 8, func(r *rig) {
		a := r.join("a", membership.Options{})
		settle(time.Second)
		twin := r.join("a", membership.Options{})
		settle(time.Minute)
		require.Equal(t, map[string]int{"a": 8}, r.counts(a))
		require.ErrorContains(t, twin.Status().Failure, "another process holds the Lease for our identity")
		a.stop()
		settle(2 * time.Second)
		require.Equal(t, map[string]int{"a": 8}, r.counts(twin))
	})
}

func TestS01_MembersOfAnotherLayout(t *testing.T) {
	inBubble(t, 8, func(r *rig) {
		a := r.join("a", membership.Options{Layout: "uid"})
		settle(time.Second)
		b := r.join("b", membership.Options{Layout: "namespace"})
		settle(time.Minute)
		require.Equal(t, map[string]int{"a": 8}, r.counts(a))
		require.ErrorContains(t, b.Status().Refusal, `"a" uses "8 slots; uid", but this member uses "8 slots; namespace"`)
		a.stop()
		settle(2 * time.Second)
		require.Equal(t, map[string]int{"b": 8}, r.counts(b))
		require.NoError(t, b.Status().Refusal)
	})
}

// Deleting a Lease does not make two owners.
func TestS01_LeaseDeletedByAnotherProgram(t *testing.T) {
	inBubble(t, 16, func(r *rig) {
		a, b := r.join("a", membership.Options{}), r.join("b", membership.Options{})
		settle(2 * time.Second)
		slot := a.Status().Owned.All()[0]
		r.runs.Go(func() { a.work(slot, time.Hour, 4*time.Second) })
		settle(0)
		require.NoError(t, r.srv.Delete(leases, r.keyOf(r.lease("a"))))
		for range 20 {
			settle(time.Second)
			b.work(slot, time.Millisecond, 0)
		}
		require.Len(t, r.counts(a, b), 2)
	})
}

// After a restore of the server's data, a working member notices by its next renewal and ends its
// terms, others keep their claims until they have written again, and then every slot has an owner.
func TestS02_RestoredServerIsNoticed(t *testing.T) {
	for _, c := range []struct {
		outage time.Duration
		bumped uint64 // by how much the revision is raised
	}{{}, {outage: 15 * time.Second}, {bumped: 1 << 20}, {outage: 15 * time.Second, bumped: 1 << 20}} { // longer than RenewDeadline
		outage, bumped := c.outage, c.bumped
		inBubble(t, 16, func(r *rig) {
			a, b := r.join("a", membership.Options{}), r.join("b", membership.Options{})
			settle(10 * time.Second)
			backup := r.srv.Snapshot()
			settle(time.Minute)
			c := r.join("c", membership.Options{})
			settle(3 * time.Minute)
			all := []*member{a, b, c}
			require.Len(t, r.counts(all...), 3)
			for n, m := range all {
				random := rand.New(rand.NewPCG(1, uint64(n)))
				r.runs.Go(func() { m.toil(random, time.Second) })
			}
			settle(time.Minute)
			r.restored.Store(true)
			if outage > 0 {
				r.srv.Down()
				settle(outage)
				r.srv.Up()
			}
			r.srv.RestoreBumped(backup, bumped)
			settle(30 * time.Second)
			require.Len(t, r.counts(all...), 3)
			for _, m := range all {
				s := m.Status()
				require.NoError(t, s.Refusal)
				require.True(t, s.Owned.Equal(s.Wanted), r.describe(all))
				require.NotNil(t, s.Lost)
				require.ErrorIs(t, s.Lost, shard.ErrLost)
			}
			b.stop()
			settle(12 * time.Second)
			require.Len(t, r.counts(a, c), 2)
		})
	}
}

// A member that sees late, after it was suspended, that another one renewed its Lease and was expelled, does
// not count from then on how long that one may still work.
func TestS02_ResumedMemberDoesNotWaitForExpelledOnes(t *testing.T) {
	inBubble(t, 32, func(r *rig) {
		a, b, c := r.join("a", membership.Options{}), r.join("b", membership.Options{}), r.join("c", membership.Options{})
		settle(4 * time.Second)
		require.Len(t, r.counts(a, b, c), 3)
		c.network.cut()
		settle(3 * time.Second)
		b.network.cut()
		settle(18 * time.Second)
		require.Equal(t, map[string]int{"a": 32}, r.counts(a))
		c.network.heal()
		for range 10 {
			settle(time.Second)
			if owned, _ := c.Owned(); owned.Len() > 0 {
				break
			}
		}
		settle(time.Second)
		require.Len(t, r.counts(a, c), 2)
	})
}
