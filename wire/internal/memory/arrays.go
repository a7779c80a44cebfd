package memory

import (
	"reflect"
	"sync/atomic"
	"unsafe"
)

// Arrays allocates the elements of slices of one type. reflect.MakeSlice would also
// allocate a slice header, which is not needed here.
type Arrays struct {
	element reflect.Type
	slice   reflect.Type
	short   [maxShort + 1]atomic.Pointer[reflect.Type] // array types by length
}

// maxShort is the longest slice for which an array type is made, because array
// types are never freed.
const maxShort = 8

func NewArrays(element reflect.Type) *Arrays {
	return &Arrays{element: element, slice: reflect.SliceOf(element)}
}

// Make returns n zeroed elements.
func (a *Arrays) Make(n int) unsafe.Pointer {
	if n > maxShort {
		return reflect.MakeSlice(a.slice, n, n).UnsafePointer()
	}
	t := a.short[n].Load()
	if t == nil {
		made := reflect.ArrayOf(n, a.element)
		t = &made
		a.short[n].Store(t)
	}
	return reflect.New(*t).UnsafePointer()
}
