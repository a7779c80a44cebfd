// Package exit determines how commands exit: the exit code, the output on stderr, and the effect of timeouts
// and Ctrl-C.
package exit
