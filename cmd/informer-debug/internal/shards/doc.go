// Package shards implements the shards command, which shows how replicas divide their work, according to all
// members' Leases or to a single member.
package shards
