// Package demo provides the components of the demo: a workload that writes to a simulated server, a saboteur
// that injects faults, and a small program that uses the informer, with a controller, a handler and a debug
// page.
//
// A Workload must be used only by the goroutine that runs it. Everything started by Accompany stops when its
// context is done, and the function it returns waits for that to happen.
package demo
