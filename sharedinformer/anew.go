package sharedinformer

import (
	"github.com/millrace-dev/millrace/deltafifo"
	"github.com/millrace-dev/millrace/object"
)

// keep puts the cached object in the place of each that is equal in all, where a
// server's history went back and the version does not tell. It is called where no lock
// is held.
func (a *applier[T]) keep(deltas []deltafifo.Delta[T]) {
	cache := a.informer.cache.Reader()
	for n := range deltas {
		if !deltas[n].Anew {
			continue
		}
		for at, item := range deltas[n].Items {
			if have, ok := cache.Get(object.KeyOf(item)); ok && a.informer.equal(have, item) {
				deltas[n].Items[at] = have
			}
		}
	}
}
