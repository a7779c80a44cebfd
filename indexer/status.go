package indexer

import (
	"cmp"
	"fmt"
	"slices"
)

// IndexStatus is the state of an index at one moment.
type IndexStatus struct {
	Name    string
	Values  int // number of values with at least one object
	Entries int // number of objects, counting an object once for each of its values

	// Largest lists the values with the most objects, the largest first. Looking up a value shared by
	// most objects costs as much as a scan.
	Largest []Bucket
}

// Bucket is a value of an index, formatted by fmt.Sprint, and the number of its objects.
type Bucket struct {
	Value   string
	Objects int
}

// Indexes returns the indexes in the order in which they were added, each with up to largest of its
// largest buckets. It checks every value of every index, but releases the read lock after every
// thousand, so writes are not delayed for long.
func (r Reader[T]) Indexes(largest int) []IndexStatus { return r.of.indexes(largest) }

func (r reader) indexes(largest int) []IndexStatus {
	r.x.mu.RLock()
	indexes := slices.Clone(r.x.indexes)
	r.x.mu.RUnlock()
	all := make([]IndexStatus, 0, len(indexes))
	for _, i := range indexes {
		all = append(all, i.status(largest))
	}
	return all
}

// status must be called without locks.
func (i *index) status(largest int) IndexStatus {
	s := IndexStatus{Name: i.name}
	var top ranking
	var buckets []*bucket
	for _, b := range i.buckets.all() {
		buckets = append(buckets, b.(*bucket))
	}
	for some := range slices.Chunk(buckets, 1000) {
		i.x.mu.RLock()
		for _, b := range some {
			if b.len() > 0 {
				s.Values++
				s.Entries += b.len()
				top.add(b.value, b.len(), largest)
			}
		}
		i.x.mu.RUnlock()
	}
	for _, one := range top {
		s.Largest = append(s.Largest, Bucket{fmt.Sprint(one.value), one.objects})
	}
	slices.SortStableFunc(s.Largest, func(a, b Bucket) int {
		return cmp.Or(cmp.Compare(b.Objects, a.Objects), cmp.Compare(a.Value, b.Value))
	})
	return s
}

// ranking lists the values with the most objects.
type ranking []ranked

type ranked struct {
	value   any
	objects int
}

// add inserts a value if it ranks among the first most values.
func (r *ranking) add(v any, objects, most int) {
	at, _ := slices.BinarySearchFunc(*r, objects, func(one ranked, n int) int { return cmp.Compare(n, one.objects) })
	if at >= most {
		return
	}
	*r = slices.Insert(*r, at, ranked{v, objects})
	if len(*r) > most {
		*r = (*r)[:most]
	}
}
