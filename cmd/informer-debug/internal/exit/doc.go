// Package exit determines how a command ends: the exit code, the output on stderr, and the meaning of
// timeouts and Ctrl-C.
package exit
