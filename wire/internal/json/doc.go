// Package json decodes JSON objects found by package frame: typed objects with the [TypeInfo] of
// their Go type, which contains each field's offset, and others as maps. It handles the forms that
// API servers write. For anything else it gives up with fault.ErrUnusual, and the reference decodes
// the object again.
//
// A TypeInfo is immutable. A [Decoder] is not safe for concurrent use.
package json
