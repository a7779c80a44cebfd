// Package check is the verb check: caches compared with the server, without taking for a difference
// what changed meanwhile.
package check
