// Package flight is the flight recorder of a process. It holds the latest events of informers, handlers
// and controllers, and records how long each stage took.
//
// A Recorder has a fixed amount of memory. It stores keys, versions and times, but not the contents of
// objects. Each informer, handler, queue and controller records on its own Track. Tracks receive memory
// in pieces. When no piece is left, the track with the most pieces loses its oldest one, so a busy
// informer does not displace the events of a quiet one.
//
// Recording takes a lock, copies about a hundred bytes and does not allocate. A nil Track records
// nothing.
//
// # The end of a process
//
// If CrashOnPanic is set for a handler or controller, a panic in it writes the latest events before the
// process ends. DumpOnPanic does the same for a goroutine that defers it, and DumpOnQuit does it for
// SIGQUIT. After a panic elsewhere, or after SIGKILL, the events are lost.
//
// # Concurrency
//
// All methods are safe for concurrent use. A reader holds the lock while it copies one track.
package flight
