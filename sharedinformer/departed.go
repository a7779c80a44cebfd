package sharedinformer

import (
	"hash/maphash"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/millrace-dev/millrace/object"
)

// departed remembers the last objects that left the cache, and at which version, so
// that an old event that the server sends again does not bring one of them back. It
// holds no memory of the objects.
type departed struct {
	seed  maphash.Seed
	at    map[uint64]string // the versions at which they left, by hash of key and UID
	order []uint64          // the keys of at; the oldest is at next once it is full
	next  int
}

// maxDeparted is how many are remembered. A server that sends old events again sends
// the last ones.
const maxDeparted = 512

// forGood is the version at which an object left that cannot come back, because another
// one has its name.
const forGood = ""

// add notes that an object has left.
func (d *departed) add(o object.Head, rv string) {
	if d.at == nil {
		d.seed, d.at = maphash.MakeSeed(), make(map[uint64]string)
	}
	id := d.id(o)
	if _, again := d.at[id]; !again {
		if len(d.order) < maxDeparted {
			d.order = append(d.order, id)
		} else {
			delete(d.at, d.order[d.next])
			d.order[d.next] = id
			d.next = (d.next + 1) % maxDeparted
		}
	}
	d.at[id] = strings.Clone(rv)
}

// outlives reports whether o, a state of an object that is not cached, is known to be
// from before that object left.
func (d *departed) outlives(o object.Head) bool {
	if d.at == nil {
		return false
	}
	left, known := d.at[d.id(o)]
	return known && (left == forGood || object.ReachedRV(left, o.GetResourceVersion()))
}

func (d *departed) id(o object.Head) uint64 {
	return maphash.Comparable(d.seed, identity{object.KeyOf(o), o.GetUID()})
}

// identity is what makes an object that one and no other (L04).
type identity struct {
	key object.Key
	uid types.UID
}
