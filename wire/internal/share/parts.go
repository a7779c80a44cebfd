package share

import (
	"sync"
	"sync/atomic"
)

// parts is a table of parts, keyed by hash. Lookups do not lock. Each hash has a few adjacent slots. If all
// are taken, a new part replaces the first one, which merely loses an opportunity to share. The table grows
// and shrinks with the number of parts.
type parts struct {
	slots atomic.Pointer[[]slot] // their number is a power of two
	len   atomic.Int64

	mu sync.Mutex // guards writes
}

// slot stores a part. Comparing the hash first avoids following pointers to the wrong parts. During a
// replacement, the hash may briefly belong to the previous or the next part.
type slot struct {
	hash atomic.Uint64
	part atomic.Pointer[part]
}

const (
	firstSlots = 1 << 5  // 512 bytes
	lastSlots  = 1 << 20 // 16 MB, reached when half a million parts are in use
	places     = 4       // for each hash
)

func newParts() *parts {
	p := new(parts)
	slots := make([]slot, firstSlots)
	p.slots.Store(&slots)
	return p
}

// placesOf returns the slots for a hash.
func placesOf(slots []slot, hash uint64) []slot {
	first := hash >> 32 & uint64(len(slots)-1) &^ (places - 1)
	return slots[first : first+places]
}

// find returns the part with this hash, or nil.
func (p *parts) find(hash uint64) *part {
	at := placesOf(*p.slots.Load(), hash)
	for i := range at {
		if at[i].hash.Load() != hash {
			continue
		}
		if found := at[i].part.Load(); found != nil && found.hash == hash {
			return found
		}
	}
	return nil
}

func (p *parts) add(made *part) {
	p.mu.Lock()
	defer p.mu.Unlock()
	slots := *p.slots.Load()
	for len(slots) < lastSlots && p.crowded(slots, made.hash) {
		slots = p.resize(slots, 2*len(slots))
	}
	if place(slots, made) {
		p.len.Add(1)
	}
}

// crowded reports whether there are too many parts for the slots: more than half as many, or more than an
// eighth as many with no free slot for this hash.
func (p *parts) crowded(slots []slot, hash uint64) bool {
	n := p.len.Load()
	if n <= int64(len(slots)/8) || n > int64(len(slots)/2) {
		return n > int64(len(slots)/2)
	}
	at := placesOf(slots, hash)
	for i := range at {
		if old := at[i].part.Load(); old == nil || old.hash == hash {
			return false
		}
	}
	return true
}

// place stores a part in the slot of the part with the same hash, or else in a free slot, or else in the
// first one. It reports whether the number of parts grew.
func place(slots []slot, made *part) bool {
	at := placesOf(slots, made.hash)
	free := -1
	for i := range at {
		old := at[i].part.Load()
		if old != nil && old.hash == made.hash {
			at[i].part.Store(made)
			return false
		}
		if old == nil && free < 0 {
			free = i
		}
	}
	into := &at[max(free, 0)]
	into.part.Store(made)
	into.hash.Store(made.hash)
	return free >= 0
}

// resize moves all parts into n slots, dropping those that do not fit.
func (p *parts) resize(slots []slot, n int) []slot {
	resized := make([]slot, n)
	for i := range slots {
		if old := slots[i].part.Load(); old != nil && !place(resized, old) {
			p.len.Add(-1)
		}
	}
	p.slots.Store(&resized)
	return resized
}

// remove removes a part that has been collected, if it is still in the table.
func (p *parts) remove(gone *part) {
	p.mu.Lock()
	defer p.mu.Unlock()
	slots := *p.slots.Load()
	at := placesOf(slots, gone.hash)
	for i := range at {
		if at[i].part.CompareAndSwap(gone, nil) {
			p.len.Add(-1)
		}
	}
	if n := len(slots) / 16; n >= firstSlots && p.len.Load() < int64(n) {
		p.resize(slots, len(slots)/4)
	}
}
