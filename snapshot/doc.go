// Package snapshot saves informer caches to files, so that a restarted process does not have to list all
// objects again.
//
// # Usage
//
//	f := factory.New(client, factory.Options{Snapshot: snapshot.In("/var/cache/shop", snapshot.Options{})})
//
// An informer reads its file on startup and writes it periodically and on shutdown. The contents are not
// trusted until the server confirms them: see sharedinformer.Options.Snapshot.
//
// # File format
//
//	"millrace snapshot 2\n"
//	block   the Label, as JSON
//	block   content
//	...
//	block   empty, marks the end
//
// A block consists of a length, a checksum, and that many bytes. The checksum (CRC-32C) covers the
// length, the bytes and all preceding blocks, so a file that was truncated, partly overwritten, or
// spliced together from others is rejected.
//
// Files are written under a temporary name, synced and then renamed, so readers see either the old file
// or the new one, no matter when the writer is killed.
//
// # Guarantees
//
// A file that is incomplete, or contains objects other than those requested, is rejected (C02). Files are
// readable only by their owner. Only one process writes to a directory, one file at a time. Secrets are
// written only if Options.Secrets is set.
//
// # Concurrency
//
// All functions and methods are safe for concurrent use. The package starts no goroutines.
//
// # Failure
//
// Functions return an [*Error] that includes the path. It wraps [ErrDamaged], [ErrNotFile],
// [ErrForeign], [ErrOld], [ErrNotOwn] or [ErrLocked], or an error from the operating system.
//
// # Debugging
//
// Run informer-debug snapshot FILE to see the contents of a file.
package snapshot
