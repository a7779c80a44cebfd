package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace/cmd/internal/manual"
	"github.com/millrace-dev/millrace/test/apiserver"
)

// The exit codes, as exitHelp documents them.
const (
	exitOK          = 0
	exitRuntime     = 1
	exitUsage       = 2
	exitUnavailable = 3
	exitFalse       = 4
	exitTimeout     = 124
)

const exitHelp = `Exit codes:
  0    done, or ended by Ctrl-C, by --count, or by demo's --duration
  1    runtime error, for example stdout was closed; Ctrl-C before there was an answer to show
  2    usage: a flag, a selector or an argument is wrong
  3    cannot connect, not allowed, or the server does not serve TYPE
  4    what was asked about is not so: of check, a cache differs from the server; of doctor, there is a problem;
       of wait, a recording is over
  124  --timeout expired, as with timeout(1)
A second Ctrl-C kills at once.`

// exitError is an error that decides the exit code.
type exitError struct {
	code int
	err  error
	hint string // what to do about it; may be empty
}

func (e *exitError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *exitError) Unwrap() error { return e.err }

func usage(format string, args ...any) error {
	return &exitError{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// surroundings is what a run gets from the process that it is in.
type surroundings struct {
	stdout, stderr           io.Writer
	outTerminal, errTerminal bool
	env                      func(string) string
	program                  string // as it was called: by kubectl, or by its own name

	// listen opens the endpoint of demo's server.
	listen func(*apiserver.Server) (*apiserver.Endpoint, error)

	// listenPage opens where demo shows itself. Nil means that it does not.
	listenPage func() (net.Listener, error)
}

// run is the whole program: it returns the exit code. It ends gracefully when
// ctx is done.
func run(ctx context.Context, args []string, s surroundings) int {
	root := newRoot(s)
	root.SetArgs(append([]string{}, args...))
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	e, ok := errors.AsType[*exitError](err)
	if !ok {
		e = &exitError{code: exitUsage, err: err} // cobra's own: an unknown command or flag
	}
	if e.code == exitUsage && e.hint == "" {
		e.hint = fmt.Sprintf("%s --help tells more", cmd.CommandPath())
	}
	fmt.Fprintf(s.stderr, "informer-debug: %s\n", oneLine(e.Error()))
	if e.hint != "" {
		fmt.Fprintf(s.stderr, "  %s\n", e.hint)
	}
	return e.code
}

func newRoot(s surroundings) *cobra.Command {
	root := &cobra.Command{
		Use:   "informer-debug",
		Short: "See what an informer sees",
		Long: `informer-debug shows what an informer sees: each change of a resource as it
arrives, how long it took from the network to a handler, and what the reflector
does about trouble. It looks into running programs, too: why an object has not been
reconciled, and what their caches hold.

` + exitHelp,
		Example: `  informer-debug watch pods -A
  informer-debug why pods/web-1 -n shop --attach http://localhost:6060
  informer-debug demo`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	if strings.HasPrefix(filepath.Base(s.program), "kubectl-") { // a plugin of kubectl
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl informer"}
	}
	root.SetOut(s.stdout)
	root.SetErr(s.stderr)
	root.AddCommand(
		newWatch(s),
		newWhy(s),
		newGet(s),
		newDescribe(s),
		newTop(s),
		newServe(s),
		newCheck(s),
		newWait(s),
		newDoctor(s),
		newShards(s),
		newChurn(s),
		newCost(s),
		newRecord(s),
		newReplay(s),
		newSnapshot(s),
		newDemo(s),
		newVersion(),
		manual.Command(),
	)
	return root
}
