// Package json decodes JSON objects, each found by package frame: typed ones with the
// TypeInfo of their Go type, which says what is at which offset, and others as maps. It
// reads the forms that API servers write. At anything else it gives up with
// fault.ErrUnusual, and the reference decodes the object again.
//
// A TypeInfo is immutable. A Decoder belongs to one goroutine.
package json
