package discovery

import (
	"cmp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/millrace-dev/millrace/object"
)

// catalog is the result of one discovery run, indexed for lookups. It is immutable, so it can be read without
// locking.
type catalog struct {
	run     uint64 // sequence number of the run, from 1
	served  []servedVersion
	partial *Error // the parts that could not be discovered; nil if there are none

	// byKind maps a kind to its mappings, in order of preference. The mappings for all versions are stored
	// under the empty version.
	byKind map[object.GVK][]*Mapping

	// byName maps a lower-case name to the resources it may refer to, in order of preference.
	byName map[string][]namedMapping
}

// namedMapping is a resource together with one of its names.
type namedMapping struct {
	*Mapping
	as nameForm
}

// nameForm is the form of a name. The smallest form wins, in the same order as in kubectl, so that one
// resource's plural is never mistaken for another's short name.
type nameForm int

const (
	asPlural nameForm = iota
	asShortName
	asSingular
	asKind
)

func newCatalog(run uint64, served []servedVersion, partial *Error) *catalog {
	c := &catalog{
		run: run, served: served, partial: partial,
		byKind: make(map[object.GVK][]*Mapping), byName: make(map[string][]namedMapping),
	}
	// Add the preferred versions of all groups first, starting with the core group, so that unqualified
	// names are interpreted as in kubectl.
	for _, preferred := range []bool{true, false} {
		for _, version := range served {
			if version.preferred != preferred {
				continue
			}
			for i := range version.mappings {
				c.add(&version.mappings[i])
			}
		}
	}
	return c
}

func (c *catalog) add(m *Mapping) {
	anyVersion := m.Kind
	anyVersion.Version = ""
	c.byKind[m.Kind] = append(c.byKind[m.Kind], m)
	c.byKind[anyVersion] = append(c.byKind[anyVersion], m)

	c.addName(m.Resource.Resource, m, asPlural)
	for _, short := range m.ShortNames {
		c.addName(short, m, asShortName)
	}
	c.addName(m.Singular, m, asSingular)
	c.addName(m.Kind.Kind, m, asKind)
}

// addName adds a name for m, unless m already has that name in a stronger form.
func (c *catalog) addName(name string, m *Mapping, as nameForm) {
	name = strings.ToLower(name)
	named := c.byName[name]
	if name == "" || len(named) > 0 && named[len(named)-1].Mapping == m {
		return
	}
	c.byName[name] = append(named, namedMapping{m, as})
}

// find returns the mappings that q may refer to, in order of preference.
func (c *catalog) find(q question) []*Mapping {
	if q.kind.Kind != "" {
		return c.byKind[q.kind]
	}
	named := c.byName[strings.ToLower(q.resource.Resource)]
	return strongest(inVersion(inGroup(named, q.resource.Group), q.resource.Version))
}

// inGroup returns the mappings in a group. The empty group means any group. If there is no such group, its
// name is treated as a prefix, so that "storageclasses.storage" finds storage.k8s.io.
func inGroup(named []namedMapping, group string) []namedMapping {
	if group == "" {
		return named
	}
	exact := keep(named, func(n namedMapping) bool { return n.Resource.Group == group })
	if len(exact) > 0 {
		return exact
	}
	return keep(named, func(n namedMapping) bool { return strings.HasPrefix(n.Resource.Group, group) })
}

func inVersion(named []namedMapping, version string) []namedMapping {
	if version == "" {
		return named
	}
	return keep(named, func(n namedMapping) bool { return n.Resource.Version == version })
}

// strongest returns the mappings with the strongest form. If there is a plural, singulars are treated as
// plurals.
func strongest(named []namedMapping) []*Mapping {
	if len(named) == 0 {
		return nil
	}
	best := slices.MinFunc(named, func(a, b namedMapping) int { return cmp.Compare(a.as, b.as) }).as
	var found []*Mapping
	for _, n := range named {
		if n.as == best || best == asPlural && n.as == asSingular {
			found = append(found, n.Mapping)
		}
	}
	return found
}

func keep(named []namedMapping, ok func(namedMapping) bool) []namedMapping {
	var kept []namedMapping
	for _, n := range named {
		if ok(n) {
			kept = append(kept, n)
		}
	}
	return kept
}

// pick selects a mapping for q. Between groups and versions, the order of preference decides. Two resources
// in one group version are ambiguous, unless q is a kind and one of them is named after it.
func pick(q question, found []*Mapping) (Mapping, error) {
	rivals := []*Mapping{found[0]}
	for _, m := range found[1:] {
		if m.Resource.GroupVersion() == found[0].Resource.GroupVersion() {
			rivals = append(rivals, m)
		}
	}
	if len(rivals) > 1 && q.kind.Kind != "" {
		named := slices.DeleteFunc(slices.Clone(rivals), func(m *Mapping) bool {
			return m.Singular != strings.ToLower(q.kind.Kind)
		})
		if len(named) == 1 {
			rivals = named
		}
	}
	if len(rivals) > 1 {
		return Mapping{}, newAmbiguousError(q, rivals)
	}
	return *rivals[0], nil
}

// keepKnown fills in failed parts of a run with earlier results, so that kinds do not become unknown while
// their API is briefly unavailable. It does not fill in parts that the server reports as gone.
func keepKnown(served []servedVersion, partial *Error, earlier []servedVersion) []servedVersion {
	if partial == nil {
		return served
	}
	known := make(map[schema.GroupVersion]servedVersion, len(earlier))
	for _, version := range earlier {
		known[version.GroupVersion] = version
	}
	for i, version := range served {
		if version.err != nil && len(version.mappings) == 0 && !apierrors.IsNotFound(version.err) {
			served[i].mappings = known[version.GroupVersion].mappings
		}
	}
	for _, failure := range partial.Failures {
		if !failure.GroupVersion.Empty() || apierrors.IsNotFound(failure.Err) {
			continue
		}
		kept := slices.DeleteFunc(slices.Clone(earlier), func(v servedVersion) bool { return !failure.covers(v.Group) })
		if failure.Path == coreRoot {
			served = append(kept, served...)
		} else {
			served = append(served, kept...)
		}
	}
	return served
}
