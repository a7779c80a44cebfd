// Package json decodes JSON objects that package frame has found: typed objects with the [TypeInfo]
// of their Go type, which knows the offset of each field, and others as maps. It reads the forms
// that API servers write. For anything else it gives up with fault.ErrUnusual, and the reference
// decodes the object again.
//
// A TypeInfo is immutable. A [Decoder] belongs to one goroutine.
package json
