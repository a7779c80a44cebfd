// Package shards is the verb shards: who has what of work that replicas share, as the Leases of the
// members or one member tell it.
package shards
