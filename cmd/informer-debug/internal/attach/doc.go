// Package attach connects to a running process: by URL, over a Unix socket, or to a pod through the API
// server. If the process does not respond, errors include advice. If a response is late, a message explains
// the wait.
package attach
