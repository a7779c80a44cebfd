package guard

import (
	"fmt"
	"reflect"

	"github.com/millrace-dev/millrace/wire/internal/fault"
)

// An object of n bytes may become MemoryBase + n*MemoryPerByte bytes of memory, beside its text. Package wire
// exports the two and says why.
const (
	MemoryPerByte = 110
	MemoryBase    = 4 << 10
)

// Bytes of memory for values without a Go type. Elements and entries come in addition.
const (
	TextBytes    = 16 // in an interface
	NumberBytes  = 8
	ElementBytes = 16 // of a list
	ListBytes    = 24
)

// Budget is how many bytes of memory an object may still become. The zero Budget allows none.
type Budget int64

// BudgetOf returns the budget of an object of n bytes.
func BudgetOf(n int) Budget { return MemoryBase + MemoryPerByte*Budget(n) }

// Take takes count values of size bytes each. It returns false if they are too many.
func (b *Budget) Take(count int, size int64) bool {
	*b -= Budget(int64(count) * size)
	return *b >= 0
}

// TooDense returns the error for an object of n bytes that would become more than it may.
func TooDense(n int) error {
	return fmt.Errorf("%w: its %d bytes become more than %d in memory; correct the writer of the object, or select fewer of its fields",
		fault.ErrTooDense, n, int64(BudgetOf(n)))
}

// MapBytes says how many bytes the entries of a map take.
type MapBytes struct {
	First int64 // one entry, with the map itself
	Each  int64 // each further entry
}

// emptyMap is what a map takes that has no entries, in bytes.
const emptyMap = 48

// A map is made of groups of groupSlots entries, of which the largest keys and values lie apart.
// It has room for twice its entries at most, or nearly.
const (
	groupSlots  = 8
	largestSlot = 128
)

// MapBytesOf returns what the entries of a map with such keys and values take.
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

// Of returns what a map of n entries takes.
func (m MapBytes) Of(n int) int64 {
	if n == 0 {
		return emptyMap
	}
	return m.First + int64(n-1)*m.Each
}
