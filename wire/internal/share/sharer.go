package share

import (
	"bytes"
	"sync"
	"unsafe"

	"github.com/millrace-dev/millrace/wire/internal/guard"
	"github.com/millrace-dev/millrace/wire/internal/memory"
)

// Sharer looks for parts in a pool on behalf of one goroutine. If a kind of part is
// never found, it only takes samples of it, so content that does not repeat costs
// almost nothing. Without a pool it finds nothing.
type Sharer struct {
	Pool      *Pool
	Budget    guard.Budget // how much memory the object may still become, shared or not
	stats     []siteStats  // by site
	object    uint8        // a number for the current object, which wraps around
	lookBytes int          // how many bytes of the object may still be looked for
	journal   *journal     // of the object that is decoded now
	held      memory.Reusable[journal]

	// While a part that will be remembered is decoded, parts within it are looked
	// for but not remembered, because its bytes include theirs. Those found must
	// not hold more than room bytes.
	keeping      bool
	room         int
	budgetBefore guard.Budget // what was left when the part began
}

// siteStats is how often a kind of part was lately looked for and found, and how many
// lookups to skip.
type siteStats struct{ asked, found, rest, pause int }

const (
	minPart     = 8       // bytes; below, decoding costs no more than looking
	trialPeriod = 512     // after so many questions the answers are judged
	minHitRate  = 16      // one in so many must have been found
	maxPause    = 16 << 9 // if not, up to so many are left out, twice as many each time

	// looksPerByte bounds how often each byte of an object is looked for, since
	// every part within a part is.
	looksPerByte = 16
)

// BeginObject is called for each object, of so many bytes.
func (s *Sharer) BeginObject(object uint8, size int) {
	s.object, s.lookBytes, s.keeping = object, looksPerByte*size, false
	s.Budget = guard.BudgetOf(size)
	if s.Pool == nil {
		return
	}
	if s.journal = s.held.Get(); s.journal == nil {
		s.journal = s.held.Set(new(journal))
	}
	s.journal.begin(s.Pool.salt.Load())
}

// EndObject is called when an object is decoded. Until the next one begins, the collector may take what s
// remembers of it (W03).
func (s *Sharer) EndObject() {
	s.journal = nil
	s.held.Release()
}

// NextObject returns a number that is not that of the current object.
func (s *Sharer) NextObject() uint8 { return s.object + 1 }

// ObjectNamed returns the number of the object with this name. In a watch there may be another version
// of an object that came before. Versions have things in common that no other object
// has, such as the name, so it is no use to remember these: all versions count as one
// object.
func (s *Sharer) ObjectNamed(name []byte) uint8 { return uint8(s.Pool.hash(stringKind, name)) }

// Worthwhile reports whether to look for a part of this size.
func (s *Sharer) Worthwhile(at *Site, size int) bool {
	if s.Pool == nil || at == nil || size < minPart {
		return false
	}
	if s.lookBytes -= size; s.lookBytes < 0 {
		return false
	}
	for at.Number >= len(s.stats) {
		s.stats = append(s.stats, siteStats{})
	}
	t := &s.stats[at.Number]
	if t.rest > 0 {
		t.rest--
		return false
	}
	if t.asked == trialPeriod {
		if t.found*minHitRate < t.asked {
			t.pause = min(max(2*t.pause, trialPeriod), maxPause)
		} else {
			t.pause = 0
		}
		t.asked, t.found, t.rest = 0, 0, t.pause
	}
	t.asked++
	return true
}

// Find looks for a part. If there is none, keep says whether to remember the one
// that is decoded now. A part that is found is taken from Budget as if it were made, or it would
// depend on other objects whether this one becomes too much.
func (s *Sharer) Find(at *Site, raw []byte) (part unsafe.Pointer, n int, hash uint64, keep bool) {
	known := s.journal.find(at, raw)
	if known.at == nil {
		hash = s.Pool.hash(at.kind, raw)
		known = s.Pool.lookup(at.kind, hash, raw)
	}
	s.journal.note(at, known)
	switch {
	case known.at == nil:
		return nil, 0, hash, s.Pool.seen.repeats(hash, s.object) && !s.keeping
	case s.keeping && known.holds > s.room:
		return nil, 0, hash, false
	}
	s.stats[at.Number].found++
	s.room -= known.holds
	s.Budget -= known.took
	return known.at, known.n, hash, false
}

// Remember makes the part that was last begun known to the pool. at, n and holds are as for
// Pool.remember.
func (s *Sharer) Remember(part *Site, hash uint64, raw []byte, at unsafe.Pointer, n, holds int) {
	s.Pool.remember(part.kind, hash, raw, at, n, holds, s.budgetBefore-s.Budget)
}

// BeginPart begins a part that will be remembered, and returns a copy of its bytes.
func (s *Sharer) BeginPart(raw []byte) []byte {
	s.keeping, s.room, s.budgetBefore = true, len(raw), s.Budget
	return bytes.Clone(raw)
}

// EndPart ends the part. It returns how many bytes the part will hold: its own, and
// those of the parts within it, which are at most as many. However deep parts nest,
// each holds at most twice its own bytes.
func (s *Sharer) EndPart(raw []byte) (holds int) {
	s.keeping = false
	return 2*len(raw) - s.room
}

// ContinueFrom makes s continue with the part that other was about to decode.
func (s *Sharer) ContinueFrom(other *Sharer) {
	s.keeping, s.room, s.Budget = other.keeping, other.room, other.Budget
}

// ForgetStats forgets how often each kind of part was found.
func (s *Sharer) ForgetStats() { clear(s.stats) }

// Site is a kind of part that may be shared, with a number under which each run
// counts how often it was found.
type Site struct {
	kind   *partKind
	Number int
}

// WithNumber returns a site of the same kind of part with another number.
func (s *Site) WithNumber(number int) *Site { return &Site{kind: s.kind, Number: number} }

// OwnMemory is the size, in bytes, from which a value certainly has memory of its
// own. The allocator may put smaller values beside others, and values without a size
// nowhere. The pool would learn late that they are gone, or never.
const OwnMemory = 16

var sites = struct {
	sync.Mutex
	known map[any]*Site
}{known: make(map[any]*Site)}

// SiteOf returns the site of a part, the same for equal parts.
func SiteOf(part any) *Site {
	return siteFor(part, nil)
}

// StringSite is the site of a string field. Strings are shared across fields.
func StringSite(field any) *Site {
	return siteFor(field, stringKind)
}

func siteFor(part any, kind *partKind) *Site {
	sites.Lock()
	defer sites.Unlock()
	s := sites.known[part]
	if s == nil {
		if kind == nil {
			kind = newPartKind()
		}
		s = &Site{kind: kind, Number: len(sites.known)}
		sites.known[part] = s
	}
	return s
}
