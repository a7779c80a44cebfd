// Package demo provides the content of the demo: a workload that writes to a simulated server, a saboteur that breaks
// things, and a small program around the informer with a controller, a handler and a page.
//
// A Workload belongs to the goroutine that runs it. Everything that Accompany starts ends with its context; the
// returned function waits for that.
package demo
