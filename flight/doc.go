// Package flight is a process's flight recorder. It keeps the latest events from informers, handlers and
// controllers, and records how long each stage took.
//
// A Recorder uses a fixed amount of memory. It stores keys, versions and times, but not object contents. Each
// informer, handler, queue and controller records on its own Track. Tracks are allocated memory in pieces.
// When no pieces are left, the track with the most pieces loses its oldest one, so a busy informer does not
// displace a quiet one's events.
//
// Recording takes a lock, copies about a hundred bytes and does not allocate. A nil Track records
// nothing.
//
// # The end of a process
//
// If CrashOnPanic is set for a handler or controller, a panic in it writes out the latest events before the
// process exits. DumpOnPanic does the same for a goroutine that defers it, and DumpOnQuit does it for
// SIGQUIT. After a panic elsewhere, or after SIGKILL, the events are lost.
//
// # Concurrency
//
// All methods are safe for concurrent use. Reading holds the lock while copying one track.
package flight
