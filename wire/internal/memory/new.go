package memory

import (
	"reflect"
	"unsafe"
)

// New is reflect.New for values that a decoder fills.
func New(t reflect.Type) reflect.Value {
	made := reflect.New(t)
	touch(made.UnsafePointer(), t.Size())
	return made
}

// touch writes zeros to zeroed memory, for decoders read a field before they set it. If a page is read before it
// is written, Linux maps a page of zeros for reading, and the write then causes a second page fault, which
// interrupts every CPU that runs the process.
func touch(at unsafe.Pointer, size uintptr) { clear(unsafe.Slice((*byte)(at), size)) }
