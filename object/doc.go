// Package object defines the types used throughout Millrace: the type parameter constraint [Object],
// object keys, kinds and resources, and resource version comparison.
//
// # Usage
//
//	key := object.KeyOf(pod)
//	if object.ReachedRV(have, want) { ... }
//
// # Concurrency
//
// All functions are pure and safe for concurrent use.
package object
