package indexer

import (
	"iter"
	"sync"
)

// table finds lists by a value. Readers need no lock; changes are made by one
// goroutine at a time. The zero table is empty.
type table[V comparable, L any] struct{ lists sync.Map } // of V to *L

// get returns the list of v, nil if there is none.
func (t *table[V, L]) get(v V) *L {
	list, ok := t.lists.Load(v)
	if !ok {
		return nil
	}
	return list.(*L)
}

func (t *table[V, L]) put(v V, list *L) { t.lists.Store(v, list) }
func (t *table[V, L]) delete(v V)       { t.lists.Delete(v) }

func (t *table[V, L]) clear() { t.lists.Clear() }

// values yields the values that have a list.
func (t *table[V, L]) values() iter.Seq[V] {
	return func(yield func(V) bool) {
		t.lists.Range(func(key, _ any) bool {
			v, _ := key.(V) // not of type V: the nil of an interface
			return yield(v)
		})
	}
}
