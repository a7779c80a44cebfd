package sharedinformer

import (
	"hash/maphash"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
)

// tombstones remembers the objects that most recently left the cache, with their last versions. It keeps a
// repeated old event from bringing such an object back. It does not keep the objects themselves.
type tombstones struct {
	seed     maphash.Seed
	versions map[uint64]string // last versions, by a hash of key and UID
	order    []uint64          // the keys in versions; once full, a ring buffer whose oldest key is at next
	next     int
}

// maxTombstones is the number of objects to remember. Servers that repeat old events only repeat recent ones.
const maxTombstones = 512

// neverReturns is the version of an object that cannot return, because another object has its name.
const neverReturns = ""

// add records that an object has left the cache.
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

// covers reports whether o, which is not cached, is known to predate the object's removal.
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

// identity identifies an object across deletion and re-creation (L04).
type identity struct {
	key object.Key
	uid types.UID
}
