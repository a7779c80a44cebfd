// Package cluster finds an API server and what it serves, by kubectl's flags, and says what is in
// the way: of reaching it, of a TYPE that it does not serve, and of informers that read from it.
package cluster
