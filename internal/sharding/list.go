package sharding

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
)

// List interprets a list of an informer's objects. Slots may have been gained or lost since the list started,
// in which case the list proves nothing about them.
type List struct {
	terms *Terms
	gains uint64              // number of gains when the list started
	away  map[identity]string // versions of listed objects that are not owned
}

type identity struct {
	key object.Key
	uid types.UID
}

// List returns a List for a list that started after the given number of gains. away contains listed objects
// that are not owned.
func (t *Terms) List(gains uint64, away []object.Version) *List {
	l := &List{t, gains, make(map[identity]string, len(away))}
	for _, v := range away {
		l.away[identity{v.Key, v.UID}] = v.RV
	}
	return l
}

// tells reports whether the list is complete for an object's slot. That is the case if the slot has been
// owned continuously since before the list started.
func (l *List) tells(o object.Head) bool {
	since := l.terms.Since(o)
	return 0 < since && since <= l.gains
}

// Owned removes the objects in slots that the list does not cover completely.
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
// version at which it was not owned or, if none is known, the object's own version.
func (l *List) Moved(o object.Head) (rv string, moved bool) {
	rv, away := l.away[identity{object.KeyOf(o), o.GetUID()}]
	if !away {
		rv = o.GetResourceVersion()
	}
	return rv, away || !l.tells(o)
}
