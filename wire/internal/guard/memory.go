package guard

import (
	"fmt"
	"reflect"

	"github.com/millrace-dev/millrace/wire/internal/fault"
)

// An object of n bytes may use MemoryBase + n*MemoryPerByte bytes of memory, plus its text.
// Package wire exports and explains both constants.
const (
	MemoryPerByte = 110
	MemoryBase    = 4 << 10
)

// Memory used by values without a Go type, in bytes, not counting elements and entries.
const (
	TextBytes    = 16 // in an interface
	NumberBytes  = 8
	ElementBytes = 16 // of a list
	ListBytes    = 24
)

// Budget is the number of bytes of memory that an object may still use. The zero Budget allows
// none.
type Budget int64

// BudgetOf returns the budget for an object of n bytes.
func BudgetOf(n int) Budget { return MemoryBase + MemoryPerByte*Budget(n) }

// Take deducts count values of size bytes each from the budget. It returns false if the budget is exceeded.
func (b *Budget) Take(count int, size int64) bool {
	*b -= Budget(int64(count) * size)
	return *b >= 0
}

// TooDense returns the error for an object of n bytes that would use too much memory.
func TooDense(n int) error {
	return fmt.Errorf("%w: its %d bytes take up more than %d in memory; fix the writer of the object, or select fewer fields",
		fault.ErrTooDense, n, int64(BudgetOf(n)))
}

// MapBytes describes the memory used by a map's entries, in bytes.
type MapBytes struct {
	First int64 // one entry, including the map itself
	Each  int64 // each further entry
}

// emptyMap is the size of a map without entries, in bytes.
const emptyMap = 48

// A map consists of groups of groupSlots entries. Keys and values larger than
// largestSlot are allocated separately. A map's capacity is at most about twice its number
// of entries.
const (
	groupSlots  = 8
	largestSlot = 128
)

// MapBytesOf returns the MapBytes of a map with these key and value types.
func MapBytesOf(key, value reflect.Type) MapBytes {
	slot, apart := int64(0), int64(0)
	for _, t := range []reflect.Type{key, value} {
		size := int64(t.Size())
		if size > largestSlot {
			apart += size
			size = 8
		}
		slot += size
	}
	return MapBytes{First: emptyMap + groupSlots + groupSlots*slot + apart, Each: 2*(slot+1) + apart}
}

// UntypedMap is the MapBytes of a map[string]any.
var UntypedMap = MapBytesOf(reflect.TypeFor[string](), reflect.TypeFor[any]())

// Of returns the size of a map with n entries.
func (m MapBytes) Of(n int) int64 {
	if n == 0 {
		return emptyMap
	}
	return m.First + int64(n-1)*m.Each
}
