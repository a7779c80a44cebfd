// Package selector knows selectors whose text selects more than they do. A server is sent the
// text alone.
package selector

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// NoLabels reports whether s, which may be nil, is labels.Nothing: that is written as
// everything.
func NoLabels(s labels.Selector) bool { return s != nil && !s.Empty() && s.String() == "" }

// NoFields reports whether s, which may be nil, is fields.Nothing, or has it among others: it
// is left out where they are written.
func NoFields(s fields.Selector) bool {
	if s == nil || s.Empty() {
		return false
	}
	all := s.Requirements()
	wanted := fields.Set{} // what has all that is written
	for _, r := range all {
		if r.Operator == selection.NotEquals {
			wanted[r.Field] += r.Value + "x" // longer than each, and so none of them
		}
	}
	for _, r := range all {
		if r.Operator != selection.NotEquals {
			wanted[r.Field] = r.Value
		}
	}
	for _, r := range all { // where they contradict each other, the server selects nothing
		if (wanted[r.Field] == r.Value) == (r.Operator == selection.NotEquals) {
			return false
		}
	}
	return !s.Matches(wanted)
}
