// Package page serves a process's debug page to users of this machine.
package page
