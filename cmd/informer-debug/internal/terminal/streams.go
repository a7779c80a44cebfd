package terminal

import "io"

// Streams contains a command's outputs and environment.
type Streams struct {
	Out, Err                 io.Writer           // Out for data, Err for everything else
	OutTerminal, ErrTerminal bool                // whether they are terminals
	Env                      func(string) string // reads the environment
}

// Quiet returns streams that discard everything. It is for completion, where messages would end up on the
// command line.
func Quiet() Streams {
	return Streams{Out: io.Discard, Err: io.Discard, Env: func(string) string { return "" }}
}
