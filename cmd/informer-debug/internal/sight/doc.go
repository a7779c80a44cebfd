// Package sight is what a verb looks at: the informers of a running process, or informers of its own
// on a cluster or on a recording. All of them are asked as a process is, by a client of package
// debug, so that most of a verb need not know which they are.
//
// A Sight owns the goroutines of its informers: Close stops them and waits.
package sight
