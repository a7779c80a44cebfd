// Package top implements the screen of informer-debug top. It shows a process's informers, handlers,
// controllers and keys, as its debug.Process reports them.
//
// A screen is a stack of places, from the process down to a single key. A place has tabs, each with a
// table that is loaded when the tab is opened and then periodically. Enter opens the place for a row,
// and Escape goes back.
//
// One goroutine owns the screen and its content. Another one queries the process, one request at a time, so
// an unresponsive process never delays keyboard input.
package top
