// Package shards implements the verb shards, which shows how replicas divide their work, according to
// the members' Leases or according to one member.
package shards
