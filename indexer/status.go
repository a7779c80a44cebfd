package indexer

import (
	"cmp"
	"fmt"
	"slices"
)

// IndexStatus is an index seen from outside at one moment.
type IndexStatus struct {
	Name    string
	Values  int // that at least one object has
	Entries int // objects under their values: one counts under each of its own

	// Largest are the values that most objects have, those with the most first. One that
	// many have costs as much to look up as to look at all of them.
	Largest []Bucket
}

// Bucket is a value of an index, as fmt.Sprint writes it, and how many objects have it.
type Bucket struct {
	Value   string
	Objects int
}

// Indexes returns the indexes in the order in which they were added, each with at most that
// many of its largest buckets. It looks at every value of every index, but keeps
// nobody from writing for longer than it takes to look at a thousand.
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

// status is called under no lock.
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

// ranking is the values with the most objects.
type ranking []ranked

type ranked struct {
	value   any
	objects int
}

// add takes a value in where it is one of the first so many.
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
