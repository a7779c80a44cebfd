// Package weight says how much memory an object may become for the bytes that it is decoded from.
package weight

import (
	"fmt"
	"reflect"

	"github.com/millrace-dev/millrace/wire/internal/fault"
)

// An object of n bytes may become Base + n*PerByte bytes of memory, beside its text. Package wire
// exports the two and says why.
const (
	PerByte = 110
	Base    = 4 << 10
)

// Bytes of memory for values without a Go type. Elements and entries come in addition.
const (
	Text    = 16 // in an interface
	Number  = 8
	Element = 16 // of a list
	List    = 24
)

// Left is how many bytes of memory an object may still become. The zero Left allows none.
type Left int64

// Of returns what an object of n bytes may become.
func Of(n int) Left { return Base + PerByte*Left(n) }

// Take takes count values of size bytes each. It reports false if they are too many.
func (l *Left) Take(count int, size int64) bool {
	*l -= Left(int64(count) * size)
	return *l >= 0
}

// Refused is the error for an object of n bytes that would become more than it may.
func Refused(n int) error {
	return fmt.Errorf("%w: its %d bytes become more than %d in memory; correct the writer of the object, or select fewer of its fields",
		fault.ErrTooDense, n, int64(Of(n)))
}

// Entries says how many bytes the entries of a map take.
type Entries struct {
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

// OfEntries returns what the entries of a map with such keys and values take.
func OfEntries(key, value reflect.Type) Entries {
	slot, apart := int64(0), int64(0)
	for _, t := range []reflect.Type{key, value} {
		size := int64(t.Size())
		if size > largestSlot {
			apart += size
			size = 8
		}
		slot += size
	}
	return Entries{First: emptyMap + groupSlots + groupSlots*slot + apart, Each: 2*(slot+1) + apart}
}

// Untyped are the entries of a map[string]any.
var Untyped = OfEntries(reflect.TypeFor[string](), reflect.TypeFor[any]())

// Of returns what a map of n entries takes.
func (e Entries) Of(n int) int64 {
	if n == 0 {
		return emptyMap
	}
	return e.First + int64(n-1)*e.Each
}
