package share

import (
	"bytes"
	"unsafe"

	"github.com/millrace-dev/millrace/wire/internal/guard"
)

// Sharer looks for parts in a pool on behalf of one goroutine. If a kind of part is
// never found, it only takes samples of it, so content that does not repeat costs
// almost nothing. Without a pool it finds nothing.
type Sharer struct {
	Pool   *Pool
	Budget guard.Budget // how much memory the object may still become, shared or not
	trials []trial      // by site
	object uint8        // which object is at hand, counted round
	left   int          // how many bytes of the object may still be looked for

	// While a part that will be remembered is decoded, parts within it are looked
	// for but not remembered, because its bytes include theirs. Those found must
	// not hold more than room bytes.
	keeping      bool
	room         int
	budgetBefore guard.Budget // what was left when the part began
}

// trial is how often a kind of part was lately looked for and found, and how many
// looks to leave out.
type trial struct{ asked, found, rest, pause int }

const (
	smallestPart = 8       // bytes; below, decoding costs no more than looking
	trialPeriod  = 512     // after so many questions the answers are judged
	worthwhile   = 16      // one in so many must have been found
	longestPause = 16 << 9 // if not, up to so many are left out, twice as many each time

	// looksPerByte bounds how often each byte of an object is looked for, since
	// every part within a part is.
	looksPerByte = 16
)

// Begin is called for each object, of so many bytes.
func (s *Sharer) Begin(object uint8, size int) {
	s.object, s.left, s.keeping = object, looksPerByte*size, false
	s.Budget = guard.BudgetOf(size)
}

// Another returns an object that is not the one at hand.
func (s *Sharer) Another() uint8 { return s.object + 1 }

// Version returns the object with this name. In a watch there may be another version
// of an object that came before. Versions have things in common that no other object
// has, such as the name, so it is no use to remember these: all versions count as one
// object.
func (s *Sharer) Version(name []byte) uint8 { return uint8(s.Pool.hash(stringUnit, name)) }

// Worth reports whether to look for a part of this size.
func (s *Sharer) Worth(at *Site, size int) bool {
	if s.Pool == nil || at == nil || size < smallestPart {
		return false
	}
	if s.left -= size; s.left < 0 {
		return false
	}
	for at.Number >= len(s.trials) {
		s.trials = append(s.trials, trial{})
	}
	t := &s.trials[at.Number]
	if t.rest > 0 {
		t.rest--
		return false
	}
	if t.asked == trialPeriod {
		if t.found*worthwhile < t.asked {
			t.pause = min(max(2*t.pause, trialPeriod), longestPause)
		} else {
			t.pause = 0
		}
		t.asked, t.found, t.rest = 0, 0, t.pause
	}
	t.asked++
	return true
}

// Find looks for a part. If there is none, keep says whether to remember the one
// that is decoded now. A part that is found is taken from Left as if it were made, or it would
// depend on other objects whether this one becomes too much.
func (s *Sharer) Find(at *Site, raw []byte) (part unsafe.Pointer, n int, hash uint64, keep bool) {
	hash = s.Pool.hash(at.unit, raw)
	part, n, holds, took := s.Pool.lookup(at.unit, hash, raw)
	switch {
	case part == nil:
		keep = s.Pool.seen.repeats(hash, s.object) && !s.keeping
	case s.keeping && holds > s.room:
		part, n = nil, 0
	default:
		s.trials[at.Number].found++
		s.room -= holds
		s.Budget -= took
	}
	return part, n, hash, keep
}

// Remember makes the part that was last begun known to the pool. at, n and holds are as for
// Pool.remember.
func (s *Sharer) Remember(part *Site, hash uint64, raw []byte, at unsafe.Pointer, n, holds int) {
	s.Pool.remember(part.unit, hash, raw, at, n, holds, s.budgetBefore-s.Budget)
}

// Keep begins a part that will be remembered, and returns a copy of its bytes.
func (s *Sharer) Keep(raw []byte) []byte {
	s.keeping, s.room, s.budgetBefore = true, len(raw), s.Budget
	return bytes.Clone(raw)
}

// Kept ends the part. It returns how many bytes the part will hold: its own, and
// those of the parts within it, which are at most as many. However deep parts nest,
// each holds at most twice its own bytes.
func (s *Sharer) Kept(raw []byte) (holds int) {
	s.keeping = false
	return 2*len(raw) - s.room
}

// Resume makes s continue with the part that other was about to decode.
func (s *Sharer) Resume(other *Sharer) {
	s.keeping, s.room, s.Budget = other.keeping, other.room, other.Budget
}

// Forget forgets how often each kind of part was found.
func (s *Sharer) Forget() { clear(s.trials) }
