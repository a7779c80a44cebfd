// Package cluster connects to an API server using kubectl's flags, and resolves resource types. Its
// errors explain why a server cannot be reached, a type is not served, or an informer fails.
package cluster
