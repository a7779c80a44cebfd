// Package page is debug's page of one process, for whoever is at this machine.
package page
