// Package why implements the why command, which explains why an object has not been reconciled, or was
// reconciled late, according to the process; compares its cached state with the server; and shows its
// history in a recording.
package why
