package terminal

import "io"

// Streams are the outputs and the environment of a verb.
type Streams struct {
	Out, Err                 io.Writer           // data, and everything else
	OutTerminal, ErrTerminal bool                // whether they are terminals
	Env                      func(string) string // reads the environment
}

// Quiet returns streams that discard everything. Messages of a completion would end up in the command line.
func Quiet() Streams {
	return Streams{Out: io.Discard, Err: io.Discard, Env: func(string) string { return "" }}
}
