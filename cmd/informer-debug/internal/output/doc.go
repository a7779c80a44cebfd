// Package output implements the flag --output: its values, and the printing of objects in these forms, as kubectl does.
//
// Text from objects is escaped if it contains terminal control characters. A template prints its whole output, up to
// 256 MiB, or only an error.
package output
