package share

import (
	"bytes"
	"sync"
	"unsafe"

	"github.com/millrace-dev/millrace/wire/internal/guard"
	"github.com/millrace-dev/millrace/wire/internal/memory"
)

// Sharer looks up parts in a pool on behalf of one goroutine. If lookups for a kind of part never succeed,
// it only samples them, so content that does not repeat costs almost nothing. Without a pool, it finds
// nothing.
type Sharer struct {
	Pool      *Pool
	Budget    guard.Budget // memory that the object may still use, shared or not
	stats     []siteStats  // by site
	object    uint8        // number of the current object; wraps around
	lookBytes int          // number of the object's bytes that may still be looked up
	journal   *journal     // nil between objects
	held      memory.Reusable[journal]

	// While a part that will be remembered is decoded, parts within it are looked up but not
	// remembered, because its bytes include theirs. The parts found may keep at most room bytes alive in
	// total.
	keeping      bool
	room         int
	budgetBefore guard.Budget // the Budget when the part began
}

// siteStats counts a site's recent lookups and their hits, and the lookups to skip.
type siteStats struct{ asked, found, rest, pause int }

const (
	minPart     = 8       // in bytes; decoding a smaller part is as cheap as a lookup
	trialPeriod = 512     // number of lookups after which the hit rate is checked
	minHitRate  = 16      // at least one in this many lookups must hit
	maxPause    = 16 << 9 // otherwise, the maximum number of lookups to skip; each pause is twice as long as the previous one

	// looksPerByte limits how many lookups may include the same byte of an object, because parts nest.
	looksPerByte = 16
)

// BeginObject starts an object with the given number and encoded size.
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

// EndObject ends the object. Until the next object starts, the garbage collector may free the journal (W03).
func (s *Sharer) EndObject() {
	s.journal = nil
	s.held.Release()
}

// NextObject returns a number that differs from the current object's.
func (s *Sharer) NextObject() uint8 { return s.object + 1 }

// ObjectNamed returns the number of the object with this name. A watch delivers several versions of
// the same object. They have parts in common that occur in no other object, such as the name. Remembering
// these does not pay off, so all versions are treated as one object.
func (s *Sharer) ObjectNamed(name []byte) uint8 { return uint8(s.Pool.hash(stringKind, name)) }

// Worthwhile reports whether looking up a part of this size pays off.
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

// Find looks up a part. If it finds none, keep reports whether the caller should remember the part
// that it decodes. Parts that are found count against Budget as if they had been decoded. Otherwise the
// result for this object would depend on other objects.
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

// Remember adds the most recently begun part to the pool. For at, n and holds, see Pool.remember.
func (s *Sharer) Remember(part *Site, hash uint64, raw []byte, at unsafe.Pointer, n, holds int) {
	s.Pool.remember(part.kind, hash, raw, at, n, holds, s.budgetBefore-s.Budget)
}

// BeginPart starts a part that will be remembered, and returns a copy of its bytes.
func (s *Sharer) BeginPart(raw []byte) []byte {
	s.keeping, s.room, s.budgetBefore = true, len(raw), s.Budget
	return bytes.Clone(raw)
}

// EndPart ends the part. It returns the number of bytes that the part will keep alive: its own, plus
// those of the parts within it, which are limited to the same number. Therefore each part keeps at most
// twice its own bytes alive, no matter how deeply parts nest.
func (s *Sharer) EndPart(raw []byte) (holds int) {
	s.keeping = false
	return 2*len(raw) - s.room
}

// ContinueFrom makes s continue the part that other has started.
func (s *Sharer) ContinueFrom(other *Sharer) {
	s.keeping, s.room, s.Budget = other.keeping, other.room, other.Budget
}

// ForgetStats resets the hit rates of all sites.
func (s *Sharer) ForgetStats() { clear(s.stats) }

// Site is a position in objects at which parts of one kind occur. Each Sharer counts lookups by the site's
// number.
type Site struct {
	kind   *partKind
	Number int
}

// WithNumber returns a site for the same kind of part with a different number.
func (s *Site) WithNumber(number int) *Site { return &Site{kind: s.kind, Number: number} }

// OwnMemory is the minimum size in bytes of a value that is certain to have its own allocation. The allocator
// may combine smaller values in one allocation, and does not allocate empty ones, so the pool would find out
// late, or never, that they were collected.
const OwnMemory = 16

var sites = struct {
	sync.Mutex
	known map[any]*Site
}{known: make(map[any]*Site)}

// SiteOf returns the site for a part; it is the same for equal parts.
func SiteOf(part any) *Site {
	return siteFor(part, nil)
}

// StringSite returns the site for a string field. Strings are shared across fields.
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
