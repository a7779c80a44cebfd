package debug

import (
	"slices"
	"strings"

	"github.com/millrace-dev/millrace/controller"
)

// namesOf returns the names of informers, by which the sources of controllers are called.
func namesOf(informers []one) map[string]bool {
	names := map[string]bool{}
	for _, each := range informers {
		names[each.status.Reflector.Resource] = true
	}
	return names
}

// concerns reports whether a controller may have to do with the object: a source of it is one of
// the informers that are meant, or none that is shown, which may ask for anything.
func (i *inquiry) concerns(sources []controller.SourceStatus) bool {
	return len(sources) == 0 || slices.ContainsFunc(sources, func(s controller.SourceStatus) bool { return i.meant[s.Name] || !i.shown[s.Name] })
}

// narrower is the source of a controller whose informer has objects of the type, and not this one;
// empty if there is none.
func (i *inquiry) narrower(sources []controller.SourceStatus) string {
	resource := func(name string) string {
		name, _, _ = strings.Cut(name, " ")
		return name
	}
	for _, s := range sources {
		for name := range i.meant {
			if i.cached && !i.meant[s.Name] && resource(s.Name) == resource(name) {
				return s.Name
			}
		}
	}
	return ""
}
