package membership

import (
	"cmp"
	"slices"
	"time"

	"github.com/millrace-dev/millrace/shard"
)

// place is whose one slot is, and whose it is to be.
type place struct {
	has, wants string    // identities; empty for nobody
	since      time.Time // when it was seen first that it is the one's who has it
	waiting    time.Time // when it was seen first that it is to go from the one to the other
}

// moves reports whether the slot is another's than whose it is to be.
func (p place) moves() bool { return p.has != "" && p.has != p.wants }

// Move is slots that are to go from one member to another.
type Move struct {
	Slots shard.Slots
	From  string
	To    string    // empty where nobody is to have them
	Since time.Time // when that was seen first, of the slot that waits longest; zero where nobody watched
	Hands int       // how many pieces of work in them have not ended; 0 where they are not ours
}

// Holding is one slot as this member sees it.
type Holding struct {
	Slot    int
	Owner   string    // who claims it; empty for nobody
	Since   time.Time // when that was seen first
	To      string    // whose it is to be
	Waiting time.Time // since when it is to be another's than the owner's; zero where it is not
	Hands   int       // how many pieces of work in it have not ended here
}

// Slot returns what is known of one slot. It is the zero value but for the number before the
// group has been seen, and for slots that there are not.
func (g *Group) Slot(n int) Holding {
	h := Holding{Slot: n}
	g.mu.Lock()
	defer g.mu.Unlock()
	if n < 0 || n >= len(g.places) {
		return h
	}
	p := g.places[n]
	h.Owner, h.Since, h.To, h.Hands = p.has, p.since, p.wants, g.slots[n].hands
	if p.moves() {
		h.Waiting = p.waiting
	}
	return h
}

// targets says who is to have which slot.
func targets(total int, all []candidate) (owners []string, slots map[string]shard.Slots) {
	owners, slots = make([]string, total), map[string]shard.Slots{}
	each := map[string][]int{}
	for slot, of := range assign(total, all) {
		if of >= 0 {
			owners[slot] = all[of].name
			each[all[of].name] = append(each[all[of].name], slot)
		}
	}
	for name, of := range each {
		slots[name] = shard.NewSlots(total, of...)
	}
	return owners, slots
}

// place says where each slot is. Members of another layout have none.
func (k *keeper) place(now time.Time, members []Member) []place {
	k.mu.Lock()
	before := k.places
	k.mu.Unlock()
	next := placesOf(k.opts.Slots, members, k.targets.owners)
	for slot := range next {
		p := &next[slot]
		p.since, p.waiting = now, now
		if len(before) == 0 {
			continue
		}
		if was := before[slot]; was.has == p.has {
			if p.since = was.since; was.wants == p.wants {
				p.waiting = was.waiting
			}
		}
	}
	return next
}

func placesOf(total int, members []Member, wants []string) []place {
	all := make([]place, total)
	for slot := range all {
		all[slot].wants = wants[slot]
	}
	for _, m := range members {
		if m.Trouble != "" {
			continue
		}
		for _, slot := range m.Claims.All() {
			if all[slot].has == "" || all[slot].has == all[slot].wants { // of two that claim it, one is about to have it
				all[slot].has = m.Identity
			}
		}
	}
	return all
}

// movesOf gathers the slots that are to go from one to another.
func movesOf(all []place, hands func(slot int) int) (moving shard.Slots, moves []Move) {
	type pair struct{ from, to string }
	each, found := map[pair][]int{}, map[pair]*Move{}
	var slots []int
	for slot, p := range all {
		if !p.moves() {
			continue
		}
		of := pair{p.has, p.wants}
		m := found[of]
		if m == nil {
			m = &Move{From: p.has, To: p.wants, Since: p.waiting}
			found[of] = m
		}
		if p.waiting.Before(m.Since) {
			m.Since = p.waiting
		}
		m.Hands += hands(slot)
		each[of], slots = append(each[of], slot), append(slots, slot)
	}
	for of, m := range found {
		m.Slots = shard.NewSlots(len(all), each[of]...)
		moves = append(moves, *m)
	}
	slices.SortFunc(moves, func(a, b Move) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
	return shard.NewSlots(len(all), slots...), moves
}
