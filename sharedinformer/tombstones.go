package sharedinformer

import (
	"hash/maphash"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
)

// tombstones note the last objects that left the cache, and at which version, so
// that an old event that the server sends again does not bring one of them back. They
// hold no memory of the objects.
type tombstones struct {
	seed     maphash.Seed
	versions map[uint64]string // the versions at which they left, by hash of key and UID
	order    []uint64          // the keys of at; the oldest is at next once it is full
	next     int
}

// maxTombstones is how many are remembered. A server that sends old events again sends
// the last ones.
const maxTombstones = 512

// neverReturns is the version at which an object left that cannot come back, because another
// one has its name.
const neverReturns = ""

// add notes that an object has left.
func (d *tombstones) add(o object.Head, rv string) {
	if d.versions == nil {
		d.seed, d.versions = maphash.MakeSeed(), make(map[uint64]string)
	}
	id := d.id(o)
	if _, again := d.versions[id]; !again {
		if len(d.order) < maxTombstones {
			d.order = append(d.order, id)
		} else {
			delete(d.versions, d.order[d.next])
			d.order[d.next] = id
			d.next = (d.next + 1) % maxTombstones
		}
	}
	d.versions[id] = strings.Clone(rv)
}

// covers reports whether o, a state of an object that is not cached, is known to be
// from before that object left.
func (d *tombstones) covers(o object.Head) bool {
	if d.versions == nil {
		return false
	}
	left, known := d.versions[d.id(o)]
	return known && (left == neverReturns || object.ReachedRV(left, o.GetResourceVersion()))
}

func (d *tombstones) id(o object.Head) uint64 {
	return maphash.Comparable(d.seed, identity{object.KeyOf(o), o.GetUID()})
}

// identity is what makes an object that one and no other (L04).
type identity struct {
	key object.Key
	uid types.UID
}
