// Package view shows the changes in one informer, one per line. The informer reads from a server for the
// watch and demo commands, and from a recording for replay. With --attach, the package shows a process's
// events.
package view
