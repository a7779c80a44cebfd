package memory

import (
	"unsafe"
	"weak"
)

// Weak refers to a variable without keeping it. The zero Weak refers to none.
type Weak struct{ at weak.Pointer[byte] }

// WeakTo refers to the variable at at, which must be on the heap.
func WeakTo(at unsafe.Pointer) Weak { return Weak{weak.Make((*byte)(at))} }

// Value returns where the variable is; nil if the collector has taken it.
func (w Weak) Value() unsafe.Pointer { return unsafe.Pointer(w.at.Value()) }
