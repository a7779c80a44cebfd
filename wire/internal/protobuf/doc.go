// Package protobuf decodes protobuf objects found by package frame, with the [Table] of their Go
// type, which contains each field's offset. It handles the form that API servers write. For
// anything else it gives up with fault.ErrUnusual, and the reference decodes the object again if
// its [Guard] allows it.
//
// Tables and guards are immutable. A [Decoder] is not safe for concurrent use.
package protobuf
