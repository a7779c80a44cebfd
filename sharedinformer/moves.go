package sharedinformer

import (
	"slices"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/object"
)

// since is the gain by which the slot of an object came; 0 where it is not ours.
func (a *applier) since(o object.Head) uint64 { return a.terms.of(a.informer.shards.Key.Hash(o)) }

// listed reports whether the list that is being applied tells of the slot of an object: it is ours,
// and was when the list began.
func (a *applier) listed(o object.Head) bool {
	since := a.since(o)
	return 0 < since && since <= a.gains
}

// own leaves out of the list of a feed the objects of slots of which it does not tell.
func (a *applier) own(d *deltafifo.Delta, f *feed) {
	a.gains, a.held = d.Part.Gains, 0
	if f != nil {
		a.held = f.held.Load()
		if a.lists == nil {
			a.lists = make(map[*feed]uint64)
		}
		a.lists[f] = a.gains
	}
	a.away = make(map[identity]struct{}, len(d.Part.Away))
	for _, v := range d.Part.Away {
		a.away[identity{v.Key, v.UID}] = struct{}{}
	}
	d.Items = slices.DeleteFunc(d.Items, func(o object.Head) bool {
		if a.listed(o) {
			return false
		}
		a.away[identity{object.KeyOf(o), o.GetUID()}] = struct{}{}
		return true
	})
}

// moved reports whether an object that a list lacks has moved.
func (a *applier) moved(o object.Head) bool {
	_, away := a.away[identity{object.KeyOf(o), o.GetUID()}]
	return away || !a.listed(o)
}

// came reports whether an object that is new to the cache was there before, in a slot or
// with a key that was not ours.
func (a *applier) came(d *deltafifo.Delta, o object.Head) bool {
	return d.Type == deltafifo.Updated || d.Type == deltafifo.Replaced && a.since(o) > a.held
}
