/*
Package shard divides objects among processes that share work. A Key reduces an object to a
hash, equal ranges of hashes are slots, and a Share is the slots of one process: by Leases, as
in package membership, or for ever, as Ordinal has it.

Sharding is experimental: its API may change in any minor version, and the part of it that API
servers do (KEP-5866) is alpha in Kubernetes.

Nothing here asks a server or starts a goroutine. All values may be used from any goroutine.

The hash is FNV-1a of 64 bits, of a UID or a namespace, as in KEP-5866, so that an API server
can select what is in some slots.
*/
package shard
