// Package view shows the changes of one informer, a line for each, as watch and demo do of a server
// and replay of a recording; and with --attach the events of a process.
package view
