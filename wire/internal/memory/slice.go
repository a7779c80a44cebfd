package memory

import "unsafe"

// slice is a slice of any type as it lies in memory.
type slice struct {
	data     unsafe.Pointer
	len, cap int
}

// PutSlice makes the slice at at the n elements that begin at data.
func PutSlice(at, data unsafe.Pointer, n int) { *(*slice)(at) = slice{data, n, n} }

// SliceLen returns the length of the slice at at.
func SliceLen(at unsafe.Pointer) int { return (*slice)(at).len }
