// Package view shows the changes of one informer, one per line. The informer reads a server for the
// verbs watch and demo, and a recording for replay. With --attach, the package shows the events of a
// process.
package view
