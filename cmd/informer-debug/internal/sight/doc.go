// Package sight provides the informers that a command inspects: those of a running process, or its own on a
// cluster or a recording. Both are read through a debug.Client, so most of a command's code need not care
// where the informers run.
//
// A Sight owns the goroutines of its informers: Close stops them and waits.
package sight
