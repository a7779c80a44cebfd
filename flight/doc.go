// Package flight is a process's flight recorder. It keeps the latest events from informers, handlers and
// controllers, and records how long each stage took.
//
// A Recorder uses a fixed amount of memory. It stores keys, versions and times, but not object contents. Each
// informer, handler, queue and controller records on its own Track. Tracks get their memory in small chunks.
// When none are left, the track with the most chunks gives up its oldest, so a busy informer does not push
// out a quiet one's events.
//
// Recording takes a lock, copies about a hundred bytes and does not allocate. A nil Track records
// nothing.
//
// # Process exit
//
// If a handler or controller with CrashOnPanic panics, the latest events are written out before the process
// exits. DumpOnPanic does the same for a goroutine that defers it, and DumpOnQuit does it for SIGQUIT. After
// a panic elsewhere, or after SIGKILL, the events are lost.
//
// # Concurrency
//
// All methods are safe for concurrent use. A reader holds the lock only while copying a single track.
package flight
