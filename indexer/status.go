package indexer

import (
	"cmp"
	"fmt"
	"slices"
)

// IndexStatus is the state of an index at a point in time.
type IndexStatus struct {
	Name    string
	Values  int // number of values with at least one object
	Entries int // number of objects, counting each object once per value

	// Largest lists the values with the most objects, largest first. Looking up a value shared by most
	// objects costs as much as a scan.
	Largest []Bucket
}

// Bucket is an index value, formatted by fmt.Sprint, and its number of objects.
type Bucket struct {
	Value   string
	Objects int
}

// Indexes returns the indexes in the order they were added, each with up to largest of its largest buckets.
// It visits every value of every index, but releases the read lock after every thousand, so that writes are
// not delayed for long.
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

// status returns the state of the index. The caller must hold no locks.
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

// add inserts a value if it ranks among the top most values.
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
