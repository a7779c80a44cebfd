// Package check implements the verb check, which compares caches with the server and does not mistake recent changes
// for differences.
package check
