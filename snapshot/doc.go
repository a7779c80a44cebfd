// Package snapshot stores the caches of informers in files, so a restarted process need not list
// all objects again.
//
// # Usage
//
//	f := factory.New(client, factory.Options{Snapshot: snapshot.In("/var/cache/shop", snapshot.Options{})})
//
// An informer reads its file when it starts, and writes it from time to time and when it stops. The
// contents of a file are not trusted until the server confirms them: see
// sharedinformer.Options.Snapshot.
//
// # A file
//
//	"millrace snapshot 2\n"
//	block   the Label, as JSON
//	block   content
//	...
//	block   without content, the end
//
// A block consists of its length, a checksum, and that many bytes. The checksum (CRC-32C) covers
// its length and bytes, and all blocks before it. A file that was truncated, partly overwritten, or
// assembled from others is therefore rejected.
//
// A file is written under a temporary name, synced, and renamed. A reader sees either the previous file
// or the new one, no matter when the writer is killed.
//
// # Guarantees
//
// A file that is incomplete, or does not hold the requested objects, is rejected (C02). Only the owner
// may read files. One process writes to a directory, one file at a time. Secrets are written only if
// Options.Secrets is set.
//
// # Concurrency
//
// All functions and methods are safe for concurrent use. The package starts no goroutines.
//
// # Failure
//
// An *Error names the file. It wraps ErrDamaged, ErrNotFile, ErrForeign, ErrOld or ErrLocked, or an
// error of the operating system.
//
// # Debugging
//
// informer-debug snapshot FILE shows the contents of a file.
package snapshot
