package share

import (
	"unsafe"

	"github.com/millrace-dev/millrace/wire/internal/guard"
)

// journal has the parts that were looked for in the object before this one, in their order. A list comes
// in the order of its keys, so most objects follow a sibling with mostly the same parts, and the part that
// came next there is likely the one that is looked for now. Comparing its bytes takes less time than
// looking into the pool, whose tables exceed the caches of the processor.
type journal struct {
	before, now []lookup
	next        int    // place in before where the next part is expected
	salt        uint64 // that of the pool
}

// lookup is a part that was looked for. at is nil if it was not found.
type lookup struct {
	site *Site
	found
}

// found is a part that the pool has.
type found struct {
	at    unsafe.Pointer
	raw   []byte       // its bytes
	n     int          // the length of a slice or string
	holds int          // as part.holds
	took  guard.Budget // as part.memory
}

const (
	maxJournal = 256 // lookups of an object; more are not noted
	nearby     = 4   // how many places before and after the expected one are tried
)

// begin prepares for the next object. If the pool forgot its parts, so does the journal.
func (j *journal) begin(salt uint64) {
	j.before, j.now, j.next = j.now, j.before[:0], 0
	if j.salt != salt {
		j.before, j.salt = j.before[:0], salt
	}
}

// find returns the part with these bytes if it is near the place where it is expected, or zero.
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

// note appends a part that was looked for.
func (j *journal) note(site *Site, part found) {
	if len(j.now) < maxJournal {
		j.now = append(j.now, lookup{site, part})
	}
}
