package main

import (
	"io"
)

// streams are where a verb writes to.
type streams struct {
	stdout, stderr           io.Writer
	outTerminal, errTerminal bool                // whether they are terminals
	env                      func(string) string // reads the environment
}

// quiet are the streams of a completion: what is said would stand in the command line.
func quiet() streams {
	return streams{stdout: io.Discard, stderr: io.Discard, env: func(string) string { return "" }}
}
