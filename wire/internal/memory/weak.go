package memory

import (
	"reflect"
	"runtime"
	"unsafe"
	"weak"
)

// Reusable stores a value for reuse, such as a large buffer. After [Reusable.Release], it refers to the value
// only weakly, so the next garbage collection may free it. The zero Reusable is empty.
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

// Set replaces the value and returns it.
func (r *Reusable[V]) Set(v *V) *V {
	r.used, r.weak = v, weak.Make(v)
	return v
}

// Release allows the garbage collector to free the value.
func (r *Reusable[V]) Release() { r.used = nil }

// WeakTable stores a decoder's data about each place, such as text that many objects contain. The table is
// referenced strongly while an object is decoded, and weakly between objects. Texts are kept alive by the
// objects that use them (W03).
type WeakTable[V any] struct {
	table []V // indexed by place; nil between objects
	weak  Reusable[[]V]
}

// At returns a place's entry. It is valid until the next call.
func (r *WeakTable[V]) At(place int) *V {
	if place < len(r.table) {
		return &r.table[place]
	}
	return r.grow(place)
}

// grow is the slow path of At, taken if there is no table or it is too short.
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

// Release is called after each object.
func (r *WeakTable[V]) Release() {
	r.table = nil
	r.weak.Release()
}

// Weak refers to a variable without keeping it alive. Two Weaks are equal if they refer to the same
// variable. The zero Weak refers to nothing.
type Weak struct{ at weak.Pointer[byte] }

// WeakTo returns a Weak for a pointer's target, which must be on the heap.
func WeakTo(pointer reflect.Value) Weak { return Weak{weak.Make((*byte)(pointer.UnsafePointer()))} }

// Value returns the variable's address, or nil if it has been collected.
func (w Weak) Value() unsafe.Pointer { return unsafe.Pointer(w.at.Value()) }

// OnCollect arranges for gone(w) to be called some time after pointer's target has been collected.
// w must refer to that target.
func OnCollect(pointer reflect.Value, w Weak, gone func(Weak)) {
	runtime.AddCleanup((*byte)(pointer.UnsafePointer()), gone, w)
}
