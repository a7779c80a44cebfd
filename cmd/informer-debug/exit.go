package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
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

// report writes what failed and what to do about it, and returns the exit code. An error that
// decides none is one of package cobra: an unknown command or flag.
func report(w io.Writer, cmd *cobra.Command, err error) int {
	if err == nil {
		return exitOK
	}
	e, ok := errors.AsType[*exitError](err)
	if !ok {
		e = &exitError{code: exitUsage, err: err}
	}
	if e.code == exitUsage && e.hint == "" {
		e.hint = fmt.Sprintf("%s --help tells more", cmd.CommandPath())
	}
	fmt.Fprintf(w, "informer-debug: %s\n", terminal.OneLine(e.Error()))
	if e.hint != "" {
		fmt.Fprintf(w, "  %s\n", e.hint)
	}
	return e.code
}
