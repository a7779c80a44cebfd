// Package terminal formats output for people: lines on the streams of a command, colours on terminals,
// columns, and short durations and sizes.
//
// Foreign text, such as names of objects and error messages, passes through OneLine, so it cannot break lines or
// control the terminal.
package terminal
