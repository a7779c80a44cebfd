package discovery

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/millrace-dev/millrace/object"
)

// NoMatchError means that the server does not serve a kind or resource. Apimachinery's
// meta.IsNoMatchError recognizes it.
type NoMatchError struct {
	Kind     object.GVK // the lookup's kind
	Resource object.GVR // or the lookup's resource, if Kind is empty

	// Similar lists up to three similar names that the server serves: resources as
	// kubectl accepts them, kinds with their group version.
	Similar []string

	// Undiscovered lists the parts of the API that could not be discovered and may contain the kind or
	// resource; nil if there are none.
	Undiscovered *Error
}

// Error returns a message that includes the kind or resource, suggests similar ones, and explains how to
// list all.
func (e *NoMatchError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the server does not serve %s", question{e.Kind, e.Resource})
	if len(e.Similar) > 0 {
		fmt.Fprintf(&b, " (did you mean %s?)", strings.Join(e.Similar, " or "))
	}
	if e.Undiscovered != nil {
		fmt.Fprintf(&b, "; it may be hidden: %v", e.Undiscovered)
	}
	b.WriteString("; \"kubectl api-resources\" lists what is served")
	return b.String()
}

// Unwrap returns apimachinery's equivalent error. It does not return Undiscovered, so that the status of
// another part of the API is not taken for that of the lookup.
func (e *NoMatchError) Unwrap() error {
	if e.Kind.Kind == "" {
		return &meta.NoResourceMatchError{PartialResource: e.Resource}
	}
	as := &meta.NoKindMatchError{GroupKind: e.Kind.GroupKind()}
	if e.Kind.Version != "" {
		as.SearchedVersions = []string{e.Kind.Version}
	}
	return as
}

// AmbiguousError means that a name matches several resources and no rule prefers one of
// them. Apimachinery's meta.IsAmbiguousError recognizes it.
type AmbiguousError struct {
	Kind       object.GVK // the lookup's kind
	Resource   object.GVR // or the lookup's resource, if Kind is empty
	Candidates []Mapping  // at least two, all in one group version
}

// Error returns a message that lists the names to choose from.
func (e *AmbiguousError) Error() string {
	names := make([]string, len(e.Candidates))
	for i, m := range e.Candidates {
		names[i] = object.ResourceName(m.Resource)
	}
	return fmt.Sprintf("%s is ambiguous: specify one of the resources %s",
		question{e.Kind, e.Resource}, strings.Join(names, ", "))
}

// Unwrap returns apimachinery's equivalent error.
func (e *AmbiguousError) Unwrap() error {
	var resources []object.GVR
	var kinds []object.GVK
	for _, m := range e.Candidates {
		resources = append(resources, m.Resource)
		kinds = append(kinds, m.Kind)
	}
	if e.Kind.Kind != "" {
		return &meta.AmbiguousKindError{PartialKind: e.Kind, MatchingResources: resources, MatchingKinds: kinds}
	}
	return &meta.AmbiguousResourceError{PartialResource: e.Resource, MatchingResources: resources, MatchingKinds: kinds}
}

func newAmbiguousError(q question, rivals []*Mapping) *AmbiguousError {
	e := &AmbiguousError{Kind: q.kind, Resource: q.resource}
	for _, m := range rivals {
		e.Candidates = append(e.Candidates, *m)
	}
	return e
}

// newMissError returns the error for a lookup that c cannot answer: a *NoMatchError or, if the lookup's group
// could not be discovered, that failure, which must not be mistaken for "not installed".
func newMissError(q question, c *catalog) error {
	if c.partial != nil && slices.ContainsFunc(c.partial.Failures, q.hiddenBy) {
		return fmt.Errorf("look up %s: %w", q, c.partial)
	}
	return &NoMatchError{Kind: q.kind, Resource: q.resource, Similar: c.similar(q), Undiscovered: c.partial}
}

// hiddenBy reports whether the failure may hide q's group (and version, if set). A resource without a group
// is hidden only if a whole root failed, because one unavailable group should not change the error for
// every misspelled name.
func (q question) hiddenBy(f Failure) bool {
	gv := q.kind.GroupVersion()
	if q.kind.Kind == "" {
		gv = q.resource.GroupVersion()
	}
	if q.kind.Kind == "" && gv.Group == "" {
		return f.GroupVersion.Empty()
	}
	return f.covers(gv.Group) &&
		(gv.Version == "" || f.GroupVersion.Empty() || f.GroupVersion.Version == gv.Version)
}

func (q question) String() string {
	if q.kind.Kind != "" {
		return "kind " + kindName(q.kind)
	}
	return fmt.Sprintf("resource %q", versionedName(q.resource))
}

// kindName formats a kind with its apiVersion.
func kindName(gvk object.GVK) string {
	if gvk.Version == "" {
		return gvk.GroupKind().String()
	}
	return gvk.Kind + " in " + gvk.GroupVersion().String()
}

// versionedName formats a resource in the form that kubectl accepts:
// TYPE[.VERSION][.GROUP].
func versionedName(gvr object.GVR) string {
	name := gvr.Resource
	for _, part := range []string{gvr.Version, gvr.Group} {
		if part != "" {
			name += "." + part
		}
	}
	return name
}

// maxSimilar limits the number of names that an error suggests.
const maxSimilar = 3

// similar returns the served names closest to q's, with those in the same group first.
func (c *catalog) similar(q question) []string {
	asked, group := q.resource.Resource, q.resource.Group
	if q.kind.Kind != "" {
		asked, group = q.kind.Kind, q.kind.Group
	}
	asked = strings.ToLower(asked)
	type proposal struct {
		name             string
		distance, abroad int
	}
	var proposals []proposal
	for _, version := range c.served {
		for i := range version.mappings {
			m := &version.mappings[i]
			p := proposal{distance: nearest(asked, m)}
			// Up to one mistake per four letters is a typo; with more, it is a different word.
			if p.distance > 1+len(asked)/4 {
				continue
			}
			if m.Resource.Group != group {
				p.abroad = 1
			}
			p.name = q.propose(m, p.distance)
			proposals = append(proposals, p)
		}
	}
	slices.SortStableFunc(proposals, func(a, b proposal) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.abroad, b.abroad))
	})
	var names []string
	for _, p := range proposals {
		if p.distance == proposals[0].distance && !slices.Contains(names, p.name) && len(names) < maxSimilar {
			names = append(names, p.name)
		}
	}
	return names
}

// propose formats m the way q should have spelled it. It includes a resource's version only if everything
// else was correct.
func (q question) propose(m *Mapping, distance int) string {
	if q.kind.Kind != "" {
		return kindName(m.Kind)
	}
	if distance == 0 && q.resource.Version != "" && strings.HasPrefix(m.Resource.Group, q.resource.Group) {
		return versionedName(m.Resource)
	}
	return object.ResourceName(m.Resource)
}

// nearest returns the distance between a lower-case word and m's closest name.
func nearest(word string, m *Mapping) int {
	d := distance(word, m.Resource.Resource)
	if m.Singular != "" {
		d = min(d, distance(word, m.Singular))
	}
	if slices.Contains(m.ShortNames, word) {
		return 0
	}
	return min(d, distance(word, strings.ToLower(m.Kind.Kind)))
}

// distance returns the restricted Damerau-Levenshtein distance in bytes, in
// O(len(a)*len(b)): how many bytes must be inserted, removed, replaced or swapped with their neighbor to turn
// a into b.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, before
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replaced := last[j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			row[j] = min(replaced, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
