// Package sight provides the informers that a verb inspects: those of a running process, or its own on a
// cluster or a recording. A client of package debug reads both, so most of a verb's code does not depend
// on where the informers run.
//
// A Sight owns the goroutines of its informers: Close stops them and waits.
package sight
