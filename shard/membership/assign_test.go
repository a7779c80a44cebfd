package membership

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

const slots = 1024

func group(n int, weight int) (all []candidate) {
	for i := range n {
		all = append(all, candidate{fmt.Sprintf("replica-%d", i), weight})
	}
	return all
}

// byName returns who has which slot.
func byName(total int, candidates []candidate) []string {
	names := make([]string, total)
	for slot, n := range assign(total, candidates) {
		if n >= 0 {
			names[slot] = candidates[n].name
		}
	}
	return names
}

func loads(owners []string) map[string]int {
	all := map[string]int{}
	for _, name := range owners {
		all[name]++
	}
	return all
}

func moved(a, b []string) (n int) {
	for slot := range a {
		if a[slot] != b[slot] {
			n++
		}
	}
	return n
}

func TestSharesAreFair(t *testing.T) {
	for _, n := range []int{1, 2, 3, 8, 20, 100, 1000, 3000} {
		share := float64(slots) / float64(n)
		for name, load := range loads(byName(slots, group(n, 1))) {
			require.NotEmpty(t, name)
			require.LessOrEqual(t, float64(load), math.Ceil(share*1.1), "%s of %d", name, n)
		}
	}
	for _, owner := range assign(slots, group(3, 0)) {
		require.Equal(t, -1, owner, "nobody takes any")
	}
}

func TestAssign(t *testing.T) {
	weights := map[string]int{"nobody": 0}
	for _, c := range group(5, 2) {
		weights[c.name] = c.weight
	}
	require.Equal(t, byName(slots, group(5, 2)), Assign(slots, weights))
	require.Equal(t, []string{"", ""}, Assign(2, nil))
	require.PanicsWithValue(t, `membership: Assign to "a" with weight -1: want 0 to 1000`, func() { Assign(1, map[string]int{"a": -1}) })
	require.Panics(t, func() { Assign(0, nil) })
}

func TestFewSlotsMove(t *testing.T) {
	for _, n := range []int{2, 3, 8, 20, 50} {
		worst := 0.0
		for salt := range 20 {
			all := group(n+1, 1)
			for i := range all {
				all[i].name += fmt.Sprint("-", salt)
			}
			part := float64(moved(byName(slots, all[:n]), byName(slots, all))) / slots
			worst = max(worst, part-1/float64(n+1))
		}
		require.LessOrEqual(t, worst, 0.03, "%d members and one more", n)
		t.Logf("%d and one more: %.3f beyond its share in the worst of 20 draws", n, worst)
	}
}

func TestSharesFollowWeights(t *testing.T) {
	all := []candidate{{"a", 1}, {"b", 2}, {"c", 4}, {"d", 1}, {"none", 0}}
	got := loads(byName(slots, all))
	for _, c := range all {
		share := float64(slots*c.weight) / 8
		require.InDelta(t, share, got[c.name], 0.15*share+0.1, c.name)
	}
	require.NotContains(t, got, "none")
}

// Members compute the same assignment from lists in any order.
func TestTheOrderOfMembersDoesNotMatter(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 30 {
		all := group(1+random.IntN(30), 1)
		for i := range all {
			all[i].weight = random.IntN(4)
		}
		total := 1 + random.IntN(300)
		want := byName(total, all)
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		require.Equal(t, want, byName(total, all))
	}
}

// No member and slot prefer each other over their partners: that makes the result independent of the
// order of the computation.
func TestTheAssignmentIsStable(t *testing.T) {
	all := group(9, 2)
	all[3].weight, all[5].weight = 1, 5
	a := assignment{owners: make([]int, slots), candidates: all}
	a.prepare()
	for slot := range a.owners {
		a.place(slot)
	}
	price := func(slot, n int) offer {
		d := draw(slot, seed(all[n].name))
		return offer{slot, n, d, cost(d), uint64(all[n].weight)}
	}
	for slot, owner := range a.owners {
		for n := range all {
			rather := n != owner && a.compare(price(slot, n), price(slot, owner)) < 0
			if rather && len(a.taken[n]) == a.room[n] {
				for _, its := range a.taken[n] {
					require.Negative(t, a.compare(its, price(slot, n)))
				}
			} else {
				require.False(t, rather, "slot %d", slot)
			}
		}
	}
}

func TestCost(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		draw := random.Uint64() >> random.IntN(60)
		want := (64 - math.Log2(float64(draw|1))) * (1 << 32)
		require.InDelta(t, want, float64(cost(draw)), 4)
	}
	require.Zero(t, cost(math.MaxUint64)>>4)
}

func BenchmarkAssign(b *testing.B) {
	for _, n := range []int{8, 100, 10_000} {
		b.Run(fmt.Sprint(n, " members"), func(b *testing.B) {
			all := group(n, 1)
			for b.Loop() {
				assign(slots, all)
			}
		})
	}
}
