// Package protobuf decodes protobuf objects that package frame has found, with the [Table] of their
// Go type, which knows the offset of each field. It reads the form that API servers write. For
// anything else it gives up with fault.ErrUnusual, and the reference decodes the object again, if
// its [Guard] allows it.
//
// Tables and guards are immutable. A [Decoder] belongs to one goroutine.
package protobuf
