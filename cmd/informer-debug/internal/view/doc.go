// Package view shows an informer's changes, one per line. For the watch and demo commands, the informer reads
// from a server, and for replay, from a recording. With --attach, the package shows a process's events.
package view
