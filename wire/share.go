package wire

import "unsafe"

// sharer looks for parts in a pool on behalf of one goroutine. It stops asking
// for kinds of parts that are never found, but for a sample, so that content
// that does not repeat costs next to nothing. Without a pool it finds nothing.
type sharer struct {
	pool   *Pool
	trials []trial // by site
	object uint8   // which object is at hand, counted round
}

// trial is how often a kind of part was looked for and found of late, and how
// many questions are to be left out.
type trial struct{ asked, found, rest, pause int }

const (
	smallestPart = 8       // bytes; below, decoding costs no more than looking
	trialPeriod  = 512     // after so many questions the answers are judged
	worthwhile   = 16      // one in so many must have been found
	longestPause = 16 << 9 // if not, up to so many are left out, twice as many each time
)

// worth reports whether to look for a part of this size.
func (s *sharer) worth(at *site, size int) bool {
	if s.pool == nil || at == nil || size < smallestPart {
		return false
	}
	for at.number >= len(s.trials) {
		s.trials = append(s.trials, trial{})
	}
	t := &s.trials[at.number]
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

// find looks for a part. Where there is none, keep says whether to remember
// the one that is decoded now.
func (s *sharer) find(at *site, raw []byte) (part unsafe.Pointer, n int, hash uint64, keep bool) {
	hash = s.pool.hash(at.unit, raw)
	if part, n = s.pool.lookup(at.unit, hash, raw); part != nil {
		s.trials[at.number].found++
		return part, n, hash, false
	}
	return nil, 0, hash, s.pool.repeats(hash, s.object)
}
