// Package sight provides the informers that a verb inspects: those of a running process, or its own on a cluster or a
// recording. A client of package debug reads all of them, so most of a verb does not depend on where they run.
//
// A Sight owns the goroutines of its informers: Close stops them and waits.
package sight
