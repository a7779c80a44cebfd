// Package page serves the debug page of one process to users of this machine.
package page
