package workqueue

import "hash/maphash"

// table is a hash table from keys to items, with chains through the items. Adding a key hashes it once,
// before the queue is locked; the item stores the hash, so removing the key does not hash it again.
//
// Finding, inserting and removing take constant time. Only growth allocates: it doubles the number of
// chains, in time proportional to the number of keys. A large table is freed when the last key is removed,
// so that an outage does not leave memory allocated.
type table[K comparable] struct {
	seed   maphash.Seed
	chains []*item[K] // length is a power of two
	len    int
}

// firstChains is the initial number of chains.
const firstChains = 16

// keptRoom is the capacity for chains, delayed adds and failure counts kept after the last key is gone.
const keptRoom = 1 << 12

func newTable[K comparable]() table[K] {
	return table[K]{seed: maphash.MakeSeed(), chains: make([]*item[K], firstChains)}
}

// hash does not require the lock.
func (t *table[K]) hash(key K) uint64 {
	return maphash.Comparable(t.seed, key)
}

func (t *table[K]) chain(hash uint64) **item[K] {
	return &t.chains[hash&uint64(len(t.chains)-1)]
}

// find returns a key's item, or nil.
func (t *table[K]) find(key K, hash uint64) *item[K] {
	it := *t.chain(hash)
	for it != nil && (it.hash != hash || it.key != key) {
		it = it.chain
	}
	return it
}

// insert adds an item whose key is not yet in the table.
func (t *table[K]) insert(it *item[K]) {
	if t.len == len(t.chains) {
		t.grow()
	}
	head := t.chain(it.hash)
	it.chain, *head = *head, it
	t.len++
}

// remove removes an item that is in the table.
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
