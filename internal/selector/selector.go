// Package selector detects selectors whose text form, which is all that servers receive, selects more
// objects than the selectors themselves.
package selector

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// NoLabels reports whether s, which may be nil, is labels.Nothing. Its text form is empty, which selects
// everything.
func NoLabels(s labels.Selector) bool { return s != nil && !s.Empty() && s.String() == "" }

// NoFields reports whether s, which may be nil, is or contains fields.Nothing, which is missing from the
// text form.
func NoFields(s fields.Selector) bool {
	if s == nil || s.Empty() {
		return false
	}
	all := s.Requirements()
	wanted := fields.Set{} // matches all requirements in the text
	for _, r := range all {
		if r.Operator == selection.NotEquals {
			wanted[r.Field] += r.Value + "x" // longer than any of them, so it equals none
		}
	}
	for _, r := range all {
		if r.Operator != selection.NotEquals {
			wanted[r.Field] = r.Value
		}
	}
	for _, r := range all { // contradictory requirements make the server select nothing
		if (wanted[r.Field] == r.Value) == (r.Operator == selection.NotEquals) {
			return false
		}
	}
	return !s.Matches(wanted)
}
