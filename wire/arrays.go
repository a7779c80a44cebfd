package wire

import (
	"reflect"
	"sync/atomic"
	"unsafe"
)

// arrays allocates the elements of slices of one type. reflect.MakeSlice would also
// allocate a slice header, which is not needed here.
type arrays struct {
	element reflect.Type
	slice   reflect.Type
	short   [maxShort + 1]atomic.Pointer[reflect.Type] // array types by length
}

// maxShort is the longest slice for which an array type is made, because array
// types are never freed.
const maxShort = 8

func newArrays(element reflect.Type) *arrays {
	return &arrays{element: element, slice: reflect.SliceOf(element)}
}

// make returns n zeroed elements.
func (a *arrays) make(n int) unsafe.Pointer {
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
