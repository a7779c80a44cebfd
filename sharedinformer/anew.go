package sharedinformer

import (
	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/object"
)

// keep puts the cached object in the place of each that is equal in all, where a
// server's history went back and the version does not tell. Within one list it does: what
// comes again is the same. It is called where no lock is held.
func (a *applier[T]) keep(deltas []deltafifo.Delta[T]) {
	cache := a.informer.cache.Reader()
	for n := range deltas {
		if !deltas[n].Anew {
			continue
		}
		items := deltas[n].Items
		listed := make(map[object.Key]T, len(items))
		for at, item := range items {
			key := object.KeyOf(item)
			if first, again := listed[key]; again && first.GetUID() == item.GetUID() && first.GetResourceVersion() == item.GetResourceVersion() {
				items[at] = first
				continue
			}
			if have, ok := cache.Get(key); ok && a.informer.equal(have, item) {
				items[at] = have
			}
			listed[key] = items[at]
		}
	}
}
