package membership_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	simulated "github.com/millrace-dev/millrace/apiservertest/network"
	"github.com/millrace-dev/millrace/shard/membership"
)

var (
	seed      = flag.Uint64("seed", 0, "the schedule to play alone; 0 is all")
	schedules = flag.Uint64("schedules", 10, "how many schedules to play")
)

// Whatever happens to networks, servers, processes and Leases, two members never work in one slot at
// the same time, if work stops within LeaseDuration less RenewDeadline, and epochs grow (S01). When
// all is well again, every slot has an owner (S02). Clocks differ: a member's may be slow by two
// fifths, so that it trusts its lease for that much longer. One of a thousand schedules has up to
// fifty members.
func TestS01_NoTwoWorkInOneSlot(t *testing.T) {
	entered := 0
	for n := uint64(1); n <= *schedules; n++ {
		if *seed != 0 && n != *seed {
			continue
		}
		t.Run(fmt.Sprint("seed ", n), func(t *testing.T) {
			random := rand.New(rand.NewPCG(n, 0))
			slots, first, most := 4+random.IntN(20), 1, 6
			if n%1000 == 500 {
				slots, first, most = 64, 20+random.IntN(20), 50
			}
			inBubbleOf(t, n, slots, func(r *rig) {
				r.play(random, first, most)
				entered += r.entered
			})
		})
	}
	require.Greater(t, entered, 100*int(min(*schedules, 1)))
	t.Logf("work was begun %d times", entered)
}

// play begins with some members.
func (r *rig) play(random *rand.Rand, first, most int) {
	var alive []*member
	joined := 0
	join := func() {
		joined++
		slow := 1 + 0.4*random.Float64()
		deadline := time.Duration(slow * float64(10*time.Second))
		m := r.join(fmt.Sprint("m", joined), membership.Options{
			Weight: 1 + random.IntN(3), Patience: time.Duration(1+random.IntN(8000)) * time.Millisecond,
			RenewDeadline: deadline, RetryPeriod: time.Duration(slow * float64(2*time.Second)),
		})
		alive = append(alive, m)
		stopping := time.Duration(random.Int64N(int64(14900*time.Millisecond - deadline)))
		for range 2 {
			own := rand.New(rand.NewPCG(random.Uint64(), 0))
			r.runs.Go(func() { m.toil(own, stopping) })
		}
	}
	for range first {
		join()
	}
	var deleted time.Time
	for range 10 + random.IntN(30) {
		time.Sleep(time.Duration(random.Int64N(int64(6*time.Second))) + 1)
		m := alive[random.IntN(len(alive))]
		what := random.IntN(13)
		r.say("step %d of %s", what, m.name)
		switch what {
		case 0, 1:
			// A member that joins then does not know the claims of a deleted Lease.
			if len(alive) < most && time.Since(deleted) > 16*time.Second {
				join()
			}
		case 2, 3:
			if len(alive) > 1 {
				alive = remove(alive, m)
				m.stop()
				if what == 3 {
					m.network.cut() // it is killed
				}
			}
		case 4:
			m.network.cut()
		case 5:
			m.network.link.Vanish()
		case 6:
			m.network.set(simulated.Conditions{Refuse: true})
			m.network.link.Cut()
		case 7:
			m.network.loses.Store(true)
		case 8:
			m.network.slow.Store(random.Int64N(int64(7 * time.Second)))
		case 9:
			blind := slices.ContainsFunc(alive, func(m *member) bool { return len(m.Status().Members) == 0 })
			if l := r.lease(m.name); l != nil && !blind {
				deleted = time.Now()
				_ = r.srv.Delete(leases, r.keyOf(l))
			}
		case 10:
			m.network.late.Store(random.Int64N(int64(4 * time.Second)))
		default:
			m.network.heal()
		}
	}
	for _, m := range alive {
		m.network.heal()
	}
	settle(150 * time.Second) // a half-open watch is given up after 45 s, and then there may be a back-off
	counts := r.counts(alive...)
	for _, m := range alive {
		s := m.Status()
		if !s.Owned.Equal(s.Wanted) || s.Attempts > 0 {
			r.Errorf("%s owns %s and wants %s, in all %v:\n%s", m.name, s.Owned, s.Wanted, counts, r.describe(alive))
		}
	}
}

func remove(all []*member, m *member) (rest []*member) {
	for _, other := range all {
		if other != m {
			rest = append(rest, other)
		}
	}
	return rest
}

// toil works in any slot that is the member's, again and again. Two do not work in one
// slot of a member: a work queue sees to that.
func (m *member) toil(random *rand.Rand, stopping time.Duration) {
	for m.ctx.Err() == nil && !m.ended.Load() {
		slot := random.IntN(m.slots)
		m.mu.Lock()
		ours := m.working[slot] == m.name
		m.mu.Unlock()
		if !ours {
			lasts := 3 * time.Second
			if random.IntN(8) == 0 { // longer than a lease
				lasts = 40 * time.Second
			}
			m.work(slot, time.Duration(random.Int64N(int64(lasts))), stopping)
		}
		pause(m.ctx, time.Duration(1+random.Int64N(int64(200*time.Millisecond))))
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
