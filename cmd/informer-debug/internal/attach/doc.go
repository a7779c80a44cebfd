// Package attach connects to a running process: by URL, over a Unix socket, or to a pod through the API
// server. If the process does not respond, the error includes advice. If a response is slow, a message
// explains the wait.
package attach
