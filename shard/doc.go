/*
Package shard divides objects among cooperating processes. A Key maps each object to a hash, a slot
is a range of hashes, and a Share is the set of slots owned by a process. A Share may be dynamic, based
on Leases (see package membership), or fixed (see Ordinal).

Sharding is experimental: its API may change in any minor version, and the API server's support for it
(KEP-5866) is alpha in Kubernetes.

The package makes no requests and starts no goroutines. Its types are safe for concurrent use.

The hash of a UID or a namespace is 64-bit FNV-1a, as in KEP-5866, so an API server can select the
objects in a set of slots. The hashes of other keys are mixed further.
*/
package shard
