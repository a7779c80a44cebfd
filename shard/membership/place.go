package membership

import (
	"cmp"
	"slices"
	"time"

	"github.com/millrace-dev/millrace/shard"
)

// place records a slot's current owner and the owner it is assigned to.
type place struct {
	has, wants string    // identities; empty if there is none
	since      time.Time // when the current owner was first seen
	waiting    time.Time // when the pending move was first seen
}

// moves reports whether the slot is about to move to another member.
func (p place) moves() bool { return p.has != "" && p.has != p.wants }

// Move is a set of slots that are about to move from one member to another.
type Move struct {
	Slots shard.Slots
	From  string
	To    string    // empty if the slots are not assigned
	Since time.Time // when the pending move of the longest-waiting slot was first seen; zero if returned by Look
	Hands int       // number of pieces of work in progress in these slots, if they are ours
}

// Holding describes a slot as seen by this member.
type Holding struct {
	Slot    int
	Owner   string    // the member that claims the slot; empty if there is none
	Since   time.Time // when that owner was first seen
	To      string    // the member to which the slot is assigned
	Waiting time.Time // when its pending move was first seen; zero if there is none
	Hands   int       // number of pieces of work in progress in this member
}

// Slot describes a slot. If the slot does not exist or the group's Leases have not been read yet, only the
// number is set.
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

// targets assigns the slots and returns the assignment both by slot and by member.
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

// place returns the current and assigned owners of each slot. Members with a different layout own none.
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
			if all[slot].has == "" || all[slot].has == all[slot].wants { // if two members claim it, one of them is about to take it over
				all[slot].has = m.Identity
			}
		}
	}
	return all
}

// movesOf groups the slots that are about to move by old and new owner.
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
