package membership

import (
	"cmp"
	"container/heap"
	"fmt"
	"math/bits"
	"slices"

	"github.com/millrace-dev/millrace/shard"
)

// surplus is the percentage by which a member may exceed its share of the slots. With a smaller surplus,
// more slots would move when members join or leave; with a larger one, some members would be overloaded.
const surplus = 10

// Assign assigns slots to members, given their names and weights, and returns the name of the member for
// each slot. The names are empty if no member can take slots. Each member computes the assignment for the
// members it sees. Assign panics if the number of slots or a weight is outside the limits of [Options].
func Assign(slots int, weights map[string]int) []string {
	if slots < 1 || slots > mostSlots {
		panic(fmt.Sprintf("membership: Assign of %d slots: want 1 to %d", slots, mostSlots))
	}
	candidates := make([]candidate, 0, len(weights))
	for name, weight := range weights {
		if weight < 0 || weight > mostWeight {
			panic(fmt.Sprintf("membership: Assign to %q with weight %d: want 0 to %d", name, weight, mostWeight))
		}
		candidates = append(candidates, candidate{name, weight})
	}
	owners, _ := targets(slots, candidates)
	return owners
}

// candidate is a member that slots may be assigned to.
type candidate struct {
	name   string
	weight int // 0 means no slots
}

// distinct returns the candidates sorted by name, one per name.
func distinct(all []candidate) []candidate {
	slices.SortFunc(all, func(a, b candidate) int { return cmp.Compare(a.name, b.name) })
	return slices.CompactFunc(all, func(a, b candidate) bool { return a.name == b.name })
}

// assign returns, for each slot, the index of its candidate, or -1 if no candidate takes slots. The result
// depends only on names and weights, not on their order, so members that see the same candidates arrive at
// the same assignment.
//
// The algorithm is rendezvous hashing with bounded loads. Each pair of a slot and a candidate has a price,
// a pseudo-random number that depends on their names and is lower for greater weights. The cheapest pair is
// matched first, then the cheapest remaining pair, and so on. A candidate gets no more slots once it has
// its share plus the surplus. Consequently, a slot moves only if its candidate leaves, a cheaper candidate
// joins, or the bounds change.
func assign(total int, candidates []candidate) []int {
	a := assignment{owners: make([]int, total), candidates: candidates}
	a.prepare()
	for slot := range a.owners {
		a.owners[slot] = -1
		if len(a.classes) > 0 {
			a.place(slot)
		}
	}
	return a.owners
}

// assignment computes the pairs by solving a stable marriage problem, which works because both sides
// order the pairs by the same prices: each slot asks the cheapest candidate that has not rejected it,
// and a full candidate rejects its most expensive slot.
type assignment struct {
	candidates []candidate
	owners     []int
	classes    []class
	room       []int         // slots that each candidate may still take
	taken      []offerHeap   // indexed by candidate, most expensive first
	refused    map[int][]int // indexed by slot: the candidates that rejected it
}

// class contains the candidates with a given weight, sorted by name.
type class struct {
	weight  uint64
	members []int
	seeds   []uint64
}

func (a *assignment) prepare() {
	var order []int
	sum := int64(0)
	for n, c := range a.candidates {
		if c.weight > 0 {
			order = append(order, n)
			sum += int64(c.weight)
		}
	}
	slices.SortFunc(order, func(x, y int) int {
		return cmp.Or(cmp.Compare(a.candidates[x].weight, a.candidates[y].weight), cmp.Compare(a.candidates[x].name, a.candidates[y].name))
	})
	a.room, a.taken, a.refused = make([]int, len(a.candidates)), make([]offerHeap, len(a.candidates)), map[int][]int{}
	for _, n := range order {
		weight := a.candidates[n].weight
		share := int64(len(a.owners)) * int64(weight) * (100 + surplus)
		a.room[n] = int((share + 100*sum - 1) / (100 * sum))
		if last := len(a.classes) - 1; last < 0 || a.classes[last].weight != uint64(weight) {
			a.classes = append(a.classes, class{weight: uint64(weight)})
		}
		c := &a.classes[len(a.classes)-1]
		c.members, c.seeds = append(c.members, n), append(c.seeds, seed(a.candidates[n].name))
	}
}

func seed(name string) uint64 { return shard.Stir(shard.Hash(name)) }

// draw returns the pseudo-random number for a slot and a candidate.
func draw(slot int, seed uint64) uint64 {
	return shard.Stir(seed ^ (uint64(slot)+1)*0x9e3779b97f4a7c15)
}

// place finds a candidate for a slot, then one for the slot that this displaces, and so on.
func (a *assignment) place(slot int) {
	for {
		best := a.cheapest(slot)
		taken := &a.taken[best.candidate]
		heap.Push(taken, best)
		a.owners[slot] = best.candidate
		if taken.Len() <= a.room[best.candidate] {
			return
		}
		gone := heap.Pop(taken).(offer)
		a.refused[gone.slot] = append(a.refused[gone.slot], gone.candidate)
		slot = gone.slot
	}
}

// offer is a slot and a candidate with a price of cost/weight.
type offer struct {
	slot, candidate int
	draw            uint64 // among candidates with the same weight, greater means cheaper
	cost            uint64
	weight          uint64
}

// cheapest returns the best offer for a slot. Among candidates with the same weight, the one with the
// greatest draw is the cheapest. Only the cheapest candidate for each weight is compared by cost, which is
// slower to compute.
func (a *assignment) cheapest(slot int) offer {
	refused := a.refused[slot]
	var best offer
	found := false
	for _, c := range a.classes {
		of, most := -1, uint64(0)
		for at, seed := range c.seeds {
			if d := draw(slot, seed); (d > most || of < 0) && !slices.Contains(refused, c.members[at]) {
				of, most = c.members[at], d
			}
		}
		if of < 0 {
			continue
		}
		next := offer{slot, of, most, cost(most), c.weight}
		if !found || a.compare(next, best) < 0 {
			best, found = next, true
		}
	}
	return best
}

// compare orders offers by price, then by name and slot.
func (a *assignment) compare(x, y offer) int {
	if x.weight == y.weight && x.draw != y.draw {
		return cmp.Compare(y.draw, x.draw)
	}
	return cmp.Or(
		cmp.Compare(x.cost*y.weight, y.cost*x.weight),
		cmp.Compare(a.candidates[x.candidate].name, a.candidates[y.candidate].name),
		cmp.Compare(x.slot, y.slot))
}

// cost returns -log2(draw/2^64) in units of 2^-32. It uses integer arithmetic, so the result is the same on
// every processor. If the lowest cost/weight wins, each candidate wins in proportion to its weight.
func cost(draw uint64) uint64 {
	draw |= 1
	zeros := bits.LeadingZeros64(draw)
	mantissa := draw << zeros // from 1 to 2, in units of 2^-63
	log := uint64(63 - zeros)
	for range 32 {
		square, _ := bits.Mul64(mantissa, mantissa) // from 1 to 4, in units of 2^-62
		log <<= 1
		if square >= 1<<63 {
			log |= 1
			mantissa = square
		} else {
			mantissa = square << 1
		}
	}
	return 64<<32 - log
}

// offerHeap is a heap of a candidate's offers, most expensive first.
type offerHeap []offer

func (h offerHeap) Len() int { return len(h) }
func (h offerHeap) Less(i, j int) bool {
	return h[i].draw < h[j].draw || h[i].draw == h[j].draw && h[i].slot > h[j].slot
}
func (h offerHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *offerHeap) Push(x any)   { *h = append(*h, x.(offer)) }
func (h *offerHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}
