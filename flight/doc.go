// Package flight is the flight recorder of a process: it holds the latest events of informers,
// handlers and controllers, and how long each stage took.
//
// A Recorder has a fixed amount of memory. It stores keys, versions and times, but no contents of
// objects. Each informer, handler, queue and controller records on its own Track. Tracks receive
// memory in pieces. When none is left, the track with the most pieces loses its oldest, so a busy
// informer does not displace the events of a quiet one.
//
// Recording takes a lock, copies about a hundred bytes and does not allocate. A nil Track records
// nothing.
//
// # The end of a process
//
// Before CrashOnPanic of a handler or controller ends the process, the latest events are written.
// DumpOnPanic does the same for a goroutine that defers it, and DumpOnQuit for SIGQUIT. After a
// panic elsewhere, or SIGKILL, the events are lost.
//
// # Concurrency
//
// All methods are safe for concurrent use. A reader holds the lock while it copies one track.
package flight
