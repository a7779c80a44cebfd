package terminal

import "io"

// Streams are where a verb writes to.
type Streams struct {
	Out, Err                 io.Writer           // data, and everything else
	OutTerminal, ErrTerminal bool                // whether they are terminals
	Env                      func(string) string // reads the environment
}

// Quiet are the streams of a completion: what is said would stand in the command line.
func Quiet() Streams {
	return Streams{Out: io.Discard, Err: io.Discard, Env: func(string) string { return "" }}
}
