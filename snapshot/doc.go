// Package snapshot keeps what informers have in files, so that a process which starts again
// need not list it.
//
// # Usage
//
//	f := factory.New(client, factory.Options{Snapshot: snapshot.In("/var/cache/shop", snapshot.Options{})})
//
// An informer reads its file when it begins and writes it now and then, and when it stops.
// What is in it is never believed: see sharedinformer.Options.Snapshot.
//
// # A file
//
//	"millrace snapshot 2\n"
//	block   the Label, as JSON
//	block   content
//	...
//	block   without content, the end
//
// A block is its length, a checksum, and that many bytes. The checksum (CRC-32C) is of its
// length and bytes, and of all blocks before it. So a file that was cut off, has been written over in
// part, or was put together of others, is an error.
//
// A file is written beside its place, synced, and renamed. Whoever reads it sees the one before
// or the one after, whenever the writer is killed.
//
// # Guarantees
//
// A file that is not whole, or not of what is wanted, is refused (C02). Files may be read by
// their owner alone. One process writes into a directory, one file at a time. Secrets are
// written only if Options.Secrets says so.
//
// # Concurrency
//
// Everything is safe for concurrent use. There are no goroutines.
//
// # Failure
//
// An *Error names the file. It wraps ErrDamaged, ErrNotFile, ErrForeign, ErrOld or ErrLocked, or
// what the system says.
//
// # Debugging
//
// informer-debug snapshot FILE shows what is in one.
package snapshot
