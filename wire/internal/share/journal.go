package share

import (
	"unsafe"

	"github.com/millrace-dev/millrace/wire/internal/guard"
)

// journal records the parts that the previous object looked up, in order. Lists are sorted by key, so most
// objects follow a sibling with nearly the same parts, and an object's next part is probably the sibling's
// next one. Comparing bytes with that part is faster than a lookup in the pool, whose tables do not fit in
// the CPU caches.
type journal struct {
	before, now []lookup
	next        int    // position in before where the next part is expected
	salt        uint64 // of the pool
}

// lookup is a lookup and its result. at is nil if nothing was found.
type lookup struct {
	site *Site
	found
}

// found is a part in the pool.
type found struct {
	at    unsafe.Pointer
	raw   []byte       // its bytes
	n     int          // the length of a slice or string
	holds int          // as part.holds
	took  guard.Budget // as part.memory
}

const (
	maxJournal = 256 // lookups recorded per object
	nearby     = 4   // positions tried before and after the expected one
)

// begin prepares for the next object. If the pool has forgotten its parts, the journal does the same.
func (j *journal) begin(salt uint64) {
	j.before, j.now, j.next = j.now, j.before[:0], 0
	if j.salt != salt {
		j.before, j.salt = j.before[:0], salt
	}
}

// find returns the part with these bytes if it is near its expected position, and zero otherwise.
func (j *journal) find(site *Site, raw []byte) found {
	at := j.next
	j.next++
	if at < len(j.before) && j.before[at].is(site, raw) {
		return j.before[at].found
	}
	for i := max(at-nearby, 0); i < min(at+nearby, len(j.before)); i++ {
		if j.before[i].is(site, raw) {
			j.next = i + 1
			return j.before[i].found
		}
	}
	return found{}
}

func (l *lookup) is(site *Site, raw []byte) bool {
	return l.site == site && l.at != nil && string(l.raw) == string(raw)
}

// note appends a lookup.
func (j *journal) note(site *Site, part found) {
	if len(j.now) < maxJournal {
		j.now = append(j.now, lookup{site, part})
	}
}
