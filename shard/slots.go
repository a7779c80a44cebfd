package shard

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// Slots is a set of slots in a group. A slot is a range of 64-bit hashes: slot i of n contains the
// hashes from i*2^64/n up to (i+1)*2^64/n. Slots values are immutable; the zero value is the empty set in a
// group without slots.
type Slots struct {
	total int
	words []uint64 // one bit per slot
}

// SlotOf returns the slot that contains hash, in a group of total slots.
func SlotOf(hash uint64, total int) int {
	hi, _ := bits.Mul64(hash, uint64(total))
	return int(hi)
}

// NewSlots returns a set of slots in a group of total slots. It panics if a slot is out of range.
func NewSlots(total int, slots ...int) Slots {
	s := Slots{total, make([]uint64, (total+63)/64)}
	for _, slot := range slots {
		if slot < 0 || slot >= total {
			panic(fmt.Sprintf("shard: slot %d of %d", slot, total))
		}
		s.words[slot/64] |= 1 << (slot % 64)
	}
	return s
}

// AllSlots returns the set of all slots.
func AllSlots(total int) Slots {
	s := NewSlots(total)
	for slot := range total {
		s.words[slot/64] |= 1 << (slot % 64)
	}
	return s
}

// Total returns the number of slots in the group.
func (s Slots) Total() int { return s.total }

// Len returns the number of slots in the set.
func (s Slots) Len() (n int) {
	for _, w := range s.words {
		n += bits.OnesCount64(w)
	}
	return n
}

// Has reports whether a slot is in the set.
func (s Slots) Has(slot int) bool {
	return slot >= 0 && slot < s.total && s.words[slot/64]&(1<<(slot%64)) != 0
}

// HasHash reports whether the slot that contains hash is in the set.
func (s Slots) HasHash(hash uint64) bool { return s.total > 0 && s.Has(SlotOf(hash, s.total)) }

// Equal reports whether two sets contain the same slots and belong to groups of the same size.
func (s Slots) Equal(other Slots) bool {
	return s.total == other.total && slices.Equal(s.words, other.words)
}

// Union returns the slots in s or other, which must belong to the same group.
func (s Slots) Union(other Slots) Slots {
	return s.with(other, func(a, b uint64) uint64 { return a | b })
}

// Without returns the slots in s that are not in other, which must belong to the same group.
func (s Slots) Without(other Slots) Slots {
	return s.with(other, func(a, b uint64) uint64 { return a &^ b })
}

func (s Slots) with(other Slots, do func(a, b uint64) uint64) Slots {
	if other.total == 0 {
		return s
	}
	if s.total == 0 {
		s = NewSlots(other.total)
	}
	if s.total != other.total {
		panic(fmt.Sprintf("shard: sets from groups of %d and %d slots", s.total, other.total))
	}
	result := NewSlots(s.total)
	for n := range result.words {
		result.words[n] = do(s.words[n], other.words[n])
	}
	return result
}

// All returns the slots in order.
func (s Slots) All() []int {
	all := make([]int, 0, s.Len())
	for n, w := range s.words {
		for ; w != 0; w &= w - 1 {
			all = append(all, 64*n+bits.TrailingZeros64(w))
		}
	}
	return all
}

// run is a sequence of adjacent slots, from first to last.
type run struct{ first, last int }

func (s Slots) runs() (all []run) {
	for _, slot := range s.All() {
		if n := len(all); n > 0 && all[n-1].last == slot-1 {
			all[n-1].last = slot
		} else {
			all = append(all, run{slot, slot})
		}
	}
	return all
}

// Range is a range of hashes, from First to Last inclusive.
type Range struct{ First, Last uint64 }

// Ranges returns the hash ranges covered by the set, in order, with adjacent ranges merged.
func (s Slots) Ranges() []Range {
	var all []Range
	for _, r := range s.runs() {
		last := uint64(math.MaxUint64)
		if r.last+1 < s.total {
			last = s.begin(r.last+1) - 1
		}
		all = append(all, Range{s.begin(r.first), last})
	}
	return all
}

// begin returns the smallest hash in a slot.
func (s Slots) begin(slot int) uint64 {
	begin, rest := bits.Div64(uint64(slot), 0, uint64(s.total)) // slot*2^64/total
	if rest > 0 {
		begin++
	}
	return begin
}

// String returns the set in the form 0-3,7.
func (s Slots) String() string {
	var b strings.Builder
	for n, r := range s.runs() {
		if n > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(r.first))
		if r.last > r.first {
			fmt.Fprintf(&b, "-%d", r.last)
		}
	}
	return b.String()
}

// MarshalText encodes the set in the form returned by String.
func (s Slots) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// ParseSlots parses the result of String, for a group of total slots.
func ParseSlots(text string, total int) (Slots, error) {
	s := NewSlots(total)
	if text == "" {
		return s, nil
	}
	next := uint64(0) // reject unordered input, which would be slow to process
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRun := strings.Cut(part, "-")
		if !isRun {
			to = from
		}
		first, err := strconv.ParseUint(from, 10, 31)
		last, err2 := strconv.ParseUint(to, 10, 31)
		if err = errors.Join(err, err2); err != nil || first < next || first > last || last >= uint64(total) {
			return Slots{}, fmt.Errorf("%.40q is not an ordered set of slots of %d", part, total)
		}
		next = last + 1
		for slot := first; slot <= last; slot++ {
			s.words[slot/64] |= 1 << (slot % 64)
		}
	}
	return s, nil
}
