// Package get implements the get command, which shows the contents of caches in kubectl's formats, once
// or continuously.
package get
