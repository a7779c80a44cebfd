// Package selection says which fields of an object are wanted: as a tree that a decoder
// walks along with the object, as a check of paths against a Go type, and as what is
// left of a whole object. Trees are immutable.
package selection
