// Package share finds parts that several objects have in common: a Pool identifies them by the bytes from
// which they were decoded, and a Sharer looks them up while an object is decoded. Words and small numbers
// that occur in nearly every object are built in.
//
// A Pool is safe for concurrent use. A Sharer is not safe for concurrent use.
package share
