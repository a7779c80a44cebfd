// Package object has the definitions that the rest of Millrace builds on: the constraint on type
// parameters, object keys, kinds and resources, and the order of resource versions.
//
// # Usage
//
//	key := object.KeyOf(pod)
//	if object.ReachedRV(have, want) { ... }
//
// # Concurrency
//
// Everything in this package is a pure function or a value, and safe for concurrent use.
package object
