// Package object says what an API object is to the rest of Millrace: the
// constraint on every type parameter, the key that names an object, the kinds and
// resources that name a type, and the order of resource versions.
//
// # Usage
//
//	key := object.KeyOf(pod)
//	if object.ReachedRV(have, want) { ... }
//
// # Concurrency
//
// Everything here is a pure function or a value.
package object
