package memory

import (
	"reflect"
	"runtime"
	"unsafe"
	"weak"
)

// Reusable holds a value for reuse, such as a large buffer. After Release it holds the value
// weakly: if it is not needed again before the next garbage collection, it is gone. The zero
// Reusable holds nothing.
type Reusable[V any] struct {
	used *V
	weak weak.Pointer[V]
}

// Get returns the value, or nil.
func (r *Reusable[V]) Get() *V {
	if r.used == nil {
		r.used = r.weak.Value()
	}
	return r.used
}

// Set replaces the value, and returns it.
func (r *Reusable[V]) Set(v *V) *V {
	r.used, r.weak = v, weak.Make(v)
	return v
}

// Release allows the collector to free the value.
func (r *Reusable[V]) Release() { r.used = nil }

// WeakTable is what a decoder remembers about each place but must not keep alive: texts
// that objects have in common. It is held while an object is decoded, and weakly
// between objects. Objects hold the texts they use (W03).
type WeakTable[V any] struct {
	table []V // by place; nil between two objects
	weak  Reusable[[]V]
}

// At returns what is remembered of a place. It is valid until the next call.
func (r *WeakTable[V]) At(place int) *V {
	if place < len(r.table) {
		return &r.table[place]
	}
	return r.grow(place)
}

// grow is At when there is no table, or none that has the place.
func (r *WeakTable[V]) grow(place int) *V {
	held := r.weak.Get()
	if held == nil {
		held = r.weak.Set(new([]V))
	}
	if r.table = *held; place >= len(r.table) {
		r.table = append(r.table, make([]V, place+1-len(r.table))...)
		*held = r.table
	}
	return &r.table[place]
}

// Release is called when an object is decoded.
func (r *WeakTable[V]) Release() {
	r.table = nil
	r.weak.Release()
}

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
