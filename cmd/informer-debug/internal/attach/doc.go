// Package attach connects to a running process: by URL, through a socket, or to a pod through the API server. If the
// process does not answer, it says what to do; if the answer is late, it says what it is waiting for.
package attach
