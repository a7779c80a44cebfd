// Package attach goes to a running process: by a URL, through a socket, or through the API server
// to a pod. It says what to do where nobody answers, and what is waited for where an answer is
// late.
package attach
