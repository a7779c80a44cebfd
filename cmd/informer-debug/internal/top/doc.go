// Package top is the screen of informer-debug top. It shows the informers, handlers, controllers and keys of a process,
// as its debug.Process reports them.
//
// A screen is a stack of places, from the process down to one key. A place has tabs, and each tab is a
// table that is loaded when it is shown and at every interval. Enter opens the place that a row stands
// for, and Escape goes back.
//
// One goroutine owns the screen and its content. It queries the process in another goroutine, one request at a time, so
// a process that does not answer never delays a key.
package top
