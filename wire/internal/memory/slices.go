package memory

import (
	"reflect"
	"sync/atomic"
	"unsafe"
)

// ArrayMaker allocates elements for slices of one type. reflect.MakeSlice would also allocate a
// slice header, which is not needed here.
type ArrayMaker struct {
	element reflect.Type
	slice   reflect.Type
	short   [maxShort + 1]atomic.Pointer[reflect.Type] // array types by length
}

// maxShort is the maximum length of slices for which array types are created. It is small because
// array types are never freed.
const maxShort = 8

func NewArrayMaker(element reflect.Type) *ArrayMaker {
	return &ArrayMaker{element: element, slice: reflect.SliceOf(element)}
}

// Make returns n zeroed elements.
func (a *ArrayMaker) Make(n int) unsafe.Pointer {
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

// slice is the memory layout of a slice.
type slice struct {
	data     unsafe.Pointer
	len, cap int
}

// PutSlice sets the slice at at to the n elements that start at data.
func PutSlice(at, data unsafe.Pointer, n int) { *(*slice)(at) = slice{data, n, n} }

// SliceLen returns the length of the slice at at.
func SliceLen(at unsafe.Pointer) int { return (*slice)(at).len }
