package apiservertest

import (
	"cmp"
	"slices"
)

// alterations holds the pending Alter actions for one response.
type alterations struct {
	next []Alter // ordered by At
	at   int64   // number of body bytes written so far
	cut  int64   // end of the range to cut
}

// newAlterations returns nil if there is nothing to alter.
func newAlterations(all []Alter) *alterations {
	if len(all) == 0 {
		return nil
	}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b Alter) int { return cmp.Compare(a.At, b.At) })
	all = slices.CompactFunc(all, func(a, b Alter) bool { return a.At == b.At })
	return &alterations{next: all}
}

// alter returns the replacement for p, the next chunk of the body.
func (a *alterations) alter(p []byte) []byte {
	sent := make([]byte, 0, len(p))
	for len(p) > 0 {
		if len(a.next) > 0 && a.next[0].At <= a.at {
			do := a.next[0]
			a.next = a.next[1:]
			if do.At == a.at {
				sent = append(sent, do.Insert...)
				a.cut = max(a.cut, a.at+do.Cut)
				p = append([]byte{p[0] ^ do.Flip}, p[1:]...)
			}
			continue
		}
		n := int64(len(p))
		if len(a.next) > 0 {
			n = min(n, a.next[0].At-a.at)
		}
		if a.at < a.cut {
			n = min(n, a.cut-a.at)
		} else {
			sent = append(sent, p[:n]...)
		}
		p, a.at = p[n:], a.at+n
	}
	return sent
}
