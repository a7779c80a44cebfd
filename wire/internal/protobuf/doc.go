// Package protobuf decodes protobuf objects, each found by package frame, with the
// Table of their Go type, which says what is at which offset. It reads the form that
// API servers write. At anything else it gives up with fault.ErrUnusual, and the
// reference decodes the object again, if its Guard lets it.
//
// Tables and guards are immutable. A Decoder belongs to one goroutine.
package protobuf
