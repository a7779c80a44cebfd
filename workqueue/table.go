package workqueue

import "hash/maphash"

// table finds the item of a key: a hash table whose chains run through the
// items. A key that is added is hashed once, before the queue's lock is taken;
// its item keeps the hash, so that taking it out needs no second.
//
// Finding, inserting and removing take constant time. Only growth allocates: it
// doubles the chains, in a time in the order of the number of keys. Many are
// dropped when the last key goes, so that an outage leaves no memory behind.
type table[K comparable] struct {
	seed   maphash.Seed
	chains []*item[K] // their number is a power of two
	len    int
}

// firstChains is how many chains a table begins with.
const firstChains = 16

// keptRoom is how many chains, places of delayed adds and counts of failures are kept for the
// next keys when there are none left.
const keptRoom = 1 << 12

func newTable[K comparable]() table[K] {
	return table[K]{seed: maphash.MakeSeed(), chains: make([]*item[K], firstChains)}
}

// hash needs no lock.
func (t *table[K]) hash(key K) uint64 {
	return maphash.Comparable(t.seed, key)
}

func (t *table[K]) chain(hash uint64) **item[K] {
	return &t.chains[hash&uint64(len(t.chains)-1)]
}

// find returns the item of a key, or nil.
func (t *table[K]) find(key K, hash uint64) *item[K] {
	it := *t.chain(hash)
	for it != nil && (it.hash != hash || it.key != key) {
		it = it.chain
	}
	return it
}

// insert puts an item in whose key is not in the table.
func (t *table[K]) insert(it *item[K]) {
	if t.len == len(t.chains) {
		t.grow()
	}
	head := t.chain(it.hash)
	it.chain, *head = *head, it
	t.len++
}

// remove takes out an item that is in the table.
func (t *table[K]) remove(it *item[K]) {
	at := t.chain(it.hash)
	for *at != it {
		at = &(*at).chain
	}
	*at, it.chain = it.chain, nil
	if t.len--; t.len == 0 && len(t.chains) > keptRoom {
		t.chains = make([]*item[K], firstChains)
	}
}

func (t *table[K]) grow() {
	old := t.chains
	t.chains = make([]*item[K], 2*len(old))
	for _, it := range old {
		for it != nil {
			next := it.chain
			head := t.chain(it.hash)
			it.chain, *head = *head, it
			it = next
		}
	}
}
