package sharding

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
)

// List interprets a list of an informer's objects. Slots may have been gained or lost since the list
// began, and the list proves nothing about those slots.
type List struct {
	terms *Terms
	gains uint64              // when the list began
	away  map[identity]string // versions of listed objects that are not owned
}

type identity struct {
	key object.Key
	uid types.UID
}

// List returns a List that began after the given gains. away are listed objects that are not owned.
func (t *Terms) List(gains uint64, away []object.Version) *List {
	l := &List{t, gains, make(map[identity]string, len(away))}
	for _, v := range away {
		l.away[identity{v.Key, v.UID}] = v.RV
	}
	return l
}

// tells reports whether the list is complete for the slot of an object. It is if the slot is owned, and
// was owned when the list began.
func (l *List) tells(o object.Head) bool {
	since := l.terms.Since(o)
	return 0 < since && since <= l.gains
}

// Owned removes the objects of slots that the list does not cover completely.
func (l *List) Owned(items []object.Head) []object.Head {
	return slices.DeleteFunc(items, func(o object.Head) bool {
		if l.tells(o) {
			return false
		}
		l.away[identity{object.KeyOf(o), o.GetUID()}] = o.GetResourceVersion()
		return true
	})
}

// Moved reports whether an object missing from the list may have moved instead of being deleted. rv is a
// version at which it was not owned, or the object's own version if no such version is known.
func (l *List) Moved(o object.Head) (rv string, moved bool) {
	rv, away := l.away[identity{object.KeyOf(o), o.GetUID()}]
	if !away {
		rv = o.GetResourceVersion()
	}
	return rv, away || !l.tells(o)
}
