// Package check implements the check command, which compares caches with the server without mistaking
// recent changes for differences.
package check
