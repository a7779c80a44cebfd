// Package top is the screen of informer-debug top: the informers, handlers, controllers and
// keys of a process, as its debug.Process shows them.
//
// A screen is a stack of places, from the process down to one key. A place has tabs, and each
// tab is a table: it is asked for when it is shown, and again at every interval. Enter on a
// row leads to the place behind it, Escape back.
//
// One goroutine owns the screen and all that is shown. It asks the process in another one, one
// question at a time, so that a process that does not answer never holds up a key.
package top
