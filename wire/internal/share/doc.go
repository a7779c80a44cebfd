// Package share finds parts that objects have in common: a Pool knows them by the bytes
// from which they were decoded, and a Sharer looks for them while an object is decoded.
// Words and small numbers that nearly every object has are there from the start.
//
// A Pool is safe for concurrent use. A Sharer belongs to one goroutine.
package share
