// Package shards implements the shards command, which shows how replicas divide their work, according to
// the members' Leases or to one member.
package shards
