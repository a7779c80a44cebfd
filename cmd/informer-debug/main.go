// Command informer-debug shows what an informer sees: each change of a resource as it arrives, how long
// the change took from the network to a handler, and how the reflector handles failures.
//
//	informer-debug watch pods -A      # against the cluster of your kubeconfig
//	informer-debug demo               # against its own server, with injected faults
//
// Changes go to stdout, everything else to stderr. "informer-debug watch
// --help" documents flags, columns and exit codes.
package main

import (
	"context"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/millrace-dev/millrace/apiservertest"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal kills the process
	os.Exit(run(ctx, os.Args[1:], surroundings{
		program: os.Args[0],
		Streams: terminal.Streams{
			Out:         os.Stdout,
			Err:         os.Stderr,
			OutTerminal: isTerminal(os.Stdout),
			ErrTerminal: isTerminal(os.Stderr),
			Env:         os.Getenv,
		},
		listen: func(srv *apiservertest.Server) (*apiservertest.Endpoint, error) {
			return srv.Listen(apiservertest.ListenOptions{})
		},
		listenPage: func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") },
	}))
}

// isTerminal reports whether f is a character device rather than a pipe or a file. /dev/null is a character
// device too, but colours are harmless there.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
