package sharding

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
)

// List is a list of an informer's objects as it applies it. Slots may have come or gone since the
// list began, and it tells nothing of those.
type List struct {
	terms *Terms
	gains uint64              // before the list
	away  map[identity]string // the versions of objects that it showed and that are not owned
}

type identity struct {
	key object.Key
	uid types.UID
}

// List returns a list that began after some gains and has shown objects that are not owned.
func (t *Terms) List(gains uint64, away []object.Version) *List {
	l := &List{t, gains, make(map[identity]string, len(away))}
	for _, v := range away {
		l.away[identity{v.Key, v.UID}] = v.RV
	}
	return l
}

// tells reports whether the list tells of the slot of an object: it is owned, and was when the
// list began.
func (l *List) tells(o object.Head) bool {
	since := l.terms.Since(o)
	return 0 < since && since <= l.gains
}

// Owned removes the objects of slots of which the list does not tell.
func (l *List) Owned(items []object.Head) []object.Head {
	return slices.DeleteFunc(items, func(o object.Head) bool {
		if l.tells(o) {
			return false
		}
		l.away[identity{object.KeyOf(o), o.GetUID()}] = o.GetResourceVersion()
		return true
	})
}

// Moved reports whether an object that the list lacks has moved, and was not deleted as far as the
// list tells, and a version at which it was away, or that of the object itself if none is known.
func (l *List) Moved(o object.Head) (rv string, moved bool) {
	rv, away := l.away[identity{object.KeyOf(o), o.GetUID()}]
	if !away {
		rv = o.GetResourceVersion()
	}
	return rv, away || !l.tells(o)
}
