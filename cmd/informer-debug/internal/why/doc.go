// Package why implements the why command. It explains why, according to the process, an object has not been
// reconciled or was reconciled late. It also compares the object's cached state with the server, and shows
// its history in a recording.
package why
