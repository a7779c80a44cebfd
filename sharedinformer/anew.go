package sharedinformer

import (
	"maps"
	"slices"

	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/object"
)

// reuseEqual replaces each listed object by the equal one that the cache has, or will have by the deltas
// before, if a server's history went back and the version does not tell whether it changed. Within one
// list the version does: an item that comes again is the same. It is called while no lock is held.
func (a *applier) reuseEqual(deltas []deltafifo.Delta) {
	if !slices.ContainsFunc(deltas, func(d deltafifo.Delta) bool { return d.Anew }) {
		return
	}
	cache := a.informer.cache.Reader()
	coming := map[object.Key]object.Head{}
	known := func(key object.Key) (object.Head, bool) {
		if o, ok := coming[key]; ok {
			return o, true
		}
		return cache.Get(key)
	}
	note := func(o object.Head) {
		key := object.KeyOf(o)
		if have, ok := known(key); ok && sameVersion(have, o) {
			o = have // as the cache does
		}
		coming[key] = o
	}
	for n := range deltas {
		d := &deltas[n]
		switch {
		case d.Anew:
			maps.Copy(coming, a.reuseEqualItems(d.Items, known))
		case d.Type == deltafifo.Replaced:
			for _, item := range d.Items {
				note(item)
			}
		case d.Type <= deltafifo.Updated && !d.Late:
			note(d.Object)
		}
	}
}

// reuseEqualItems is reuseEqual for one list. It returns the list by key.
func (a *applier) reuseEqualItems(items []object.Head, known func(object.Key) (object.Head, bool)) map[object.Key]object.Head {
	listed := make(map[object.Key]object.Head, len(items))
	for at, item := range items {
		key := object.KeyOf(item)
		if first, again := listed[key]; again && sameVersion(first, item) {
			items[at] = first
			continue
		}
		if have, ok := known(key); ok && a.informer.equal(have, item) {
			items[at] = have
		}
		listed[key] = items[at]
	}
	return listed
}

func sameVersion(a, b object.Head) bool {
	return a.GetUID() == b.GetUID() && a.GetResourceVersion() == b.GetResourceVersion()
}
