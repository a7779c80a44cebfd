// Package output implements the --output flag: its values, and printing objects in these formats,
// compatible with kubectl.
//
// Terminal control characters in text from objects are escaped. A template prints its complete output, up to
// 256 MiB, or nothing but an error.
package output
