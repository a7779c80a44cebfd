package apiservertest

import (
	"cmp"
	"slices"
)

// alterations are what is left to do of the Alter actions of one response.
type alterations struct {
	next []Alter // in the order of At
	at   int64   // bytes of the body that have come by
	cut  int64   // where the part ends that is left out
}

// newAlterations returns nil where nothing is to be altered.
func newAlterations(all []Alter) *alterations {
	if len(all) == 0 {
		return nil
	}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b Alter) int { return cmp.Compare(a.At, b.At) })
	all = slices.CompactFunc(all, func(a, b Alter) bool { return a.At == b.At })
	return &alterations{next: all}
}

// alter returns what is sent in the place of p, the next part of the body.
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
