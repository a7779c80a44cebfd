// Package demo is what the demonstration shows: a workload that writes to a simulated server, a
// saboteur that breaks something now and then, and around the informer the company of a small
// program with a controller, a handler and a page.
//
// A Workload belongs to the goroutine that runs it. What Accompany starts ends with its context, and
// wait waits for it.
package demo
