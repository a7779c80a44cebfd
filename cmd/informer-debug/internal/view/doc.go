// Package view shows the changes of one informer, one per line: of a server for watch and demo, of a recording for
// replay. With --attach it shows the events of a process.
package view
