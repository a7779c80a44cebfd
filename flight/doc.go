// Package flight is the flight recorder of a process: the last things that happened to its
// informers, handlers and controllers, and how long each stage took.
//
// A Recorder has a fixed amount of memory, and knows keys, versions and times, but no
// content of objects. Whoever has something to record takes a Track of it. The memory
// goes to the tracks in pieces. When none is left, the track that has the most of them
// loses its oldest, so that one busy informer does not drive out what is known of a quiet
// one.
//
// To record costs a lock, a copy of about a hundred bytes and no allocation. A nil
// Track records nothing.
//
// # The end of a process
//
// What CrashOnPanic of a handler or a controller ends the process with is preceded by the
// last events. A goroutine that defers DumpOnPanic does the same, and DumpOnQuit does it for
// SIGQUIT. A panic elsewhere, or SIGKILL, ends the process without them.
//
// # Concurrency
//
// All methods are safe for concurrent use. A reader holds the lock for the time that
// it takes to copy one track.
package flight
