// Package terminal formats output for humans: lines on a command's streams, colours on terminals, columns,
// and short durations and sizes.
//
// Untrusted text, such as object names and error messages, is passed through [OneLine], so that it
// cannot break lines or control the terminal.
package terminal
