package indexer

import (
	"iter"
	"sync"
)

// table maps values to lists, and namespaces to their versions. Readers need no lock; changes are made by one
// goroutine at a time. Make it with newTable.
//
// lists is a *sync.Map that the type does not name. A package that names a view compiles the
// methods of each generic type that it reaches through fields, and those inside of sync.Map take
// half a megabyte.
type table struct{ lists any }

func newTable() table { return table{lists: new(sync.Map)} }

// get returns the list of v, nil if there is none.
func (t table) get(v any) any {
	list, _ := t.lists.(*sync.Map).Load(v)
	return list
}

func (t table) put(v, list any) { t.lists.(*sync.Map).Store(v, list) }

// remove takes a list away, unless there is another one.
func (t table) remove(v, list any) { t.lists.(*sync.Map).CompareAndDelete(v, list) }

// forget takes away whatever v has.
func (t table) forget(v any) { t.lists.(*sync.Map).Delete(v) }

func (t table) clear() { t.lists.(*sync.Map).Clear() }

// all yields the values that have a list, and their lists.
func (t table) all() iter.Seq2[any, any] { return t.lists.(*sync.Map).Range }
