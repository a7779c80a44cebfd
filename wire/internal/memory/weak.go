package memory

import (
	"reflect"
	"runtime"
	"unsafe"
	"weak"
)

// Weak refers to a variable without keeping it. Two are equal if they refer to the same one.
// The zero Weak refers to none.
type Weak struct{ at weak.Pointer[byte] }

// WeakTo refers to what a pointer points to, which must be on the heap.
func WeakTo(pointer reflect.Value) Weak { return Weak{weak.Make((*byte)(pointer.UnsafePointer()))} }

// Value returns where the variable is; nil if the collector has taken it.
func (w Weak) Value() unsafe.Pointer { return unsafe.Pointer(w.at.Value()) }

// OnCollect has gone called with w some time after the collector has taken what a pointer
// points to, to which w refers.
func OnCollect(pointer reflect.Value, w Weak, gone func(Weak)) {
	runtime.AddCleanup((*byte)(pointer.UnsafePointer()), gone, w)
}
