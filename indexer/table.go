package indexer

import (
	"iter"
	"sync"
)

// table finds lists by a value. Readers need no lock; changes are made by one
// goroutine at a time. The zero table is empty.
type table struct{ lists sync.Map }

// get returns the list of v, nil if there is none.
func (t *table) get(v any) any {
	list, _ := t.lists.Load(v)
	return list
}

func (t *table) put(v, list any) { t.lists.Store(v, list) }

// remove takes a list away, unless there is another one.
func (t *table) remove(v, list any) { t.lists.CompareAndDelete(v, list) }

func (t *table) clear() { t.lists.Clear() }

// all yields the values that have a list, and their lists.
func (t *table) all() iter.Seq2[any, any] { return t.lists.Range }
