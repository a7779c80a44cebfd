// Package output is the flag --output: the words that it takes, and objects in the forms that
// they name, as kubectl has them.
//
// Texts that come out of objects are escaped where they would steer a terminal. A template writes
// all that it makes, up to 256 MiB, or nothing and why not.
package output
