// Package cluster finds an API server by kubectl's flags and discovers what it serves. It explains why a server cannot
// be reached, a TYPE is not served, or an informer fails.
package cluster
