package memory

import (
	"reflect"
	"unsafe"
)

// New is [reflect.New] followed by [Touch].
func New(t reflect.Type) reflect.Value {
	made := reflect.New(t)
	Touch(made.UnsafePointer(), t.Size())
	return made
}

// Touch writes zeros to memory that is zeroed and that no other goroutine uses, without write barriers. Call it if the first access to the memory would be a read: then Linux would
// map a page of zeros for reading, and the later write would cause a second page fault, which interrupts every CPU
// that runs the process.
func Touch(at unsafe.Pointer, size uintptr) { clear(unsafe.Slice((*byte)(at), size)) }
