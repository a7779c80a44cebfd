// Package terminal writes for people: on the streams of a command, a line at a time, in colours
// where somebody looks, in columns, and with durations and sizes that are short to read.
//
// What others say, such as names of objects and texts of errors, passes OneLine before it is
// written, so that it neither breaks a line nor steers the terminal.
package terminal
