// Package why implements the verb why: why an object has not been reconciled, or was reconciled late, according to the
// process; how its cached state compares with the server; and its history in a recording.
package why
