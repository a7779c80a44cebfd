package exit

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
)

// The exit codes, as listed in Help.
const (
	CodeOK          = 0
	CodeRuntime     = 1
	CodeUsage       = 2
	CodeUnavailable = 3
	CodeFalse       = 4
	CodeTimeout     = 124
)

// See refers to the exit codes. It goes at the end of a command's help.
const See = `"informer-debug --help" lists the exit codes.`

// Help lists the exit codes. It goes at the end of the program's help.
const Help = `Exit codes:
  0    success, or stopped by Ctrl-C, --count, or demo's --duration
  1    runtime error, for example stdout was closed; Ctrl-C before there was a result to show
  2    usage error: an invalid flag, selector or argument
  3    cannot connect, not allowed, the server does not serve TYPE, or a named object does not
       exist
  4    the check failed: for check, a cache differs from the server; for doctor, there is a problem
       or, with --strict, a warning; for wait, the recording ended first
  124  --timeout expired, as with timeout(1)
A second Ctrl-C kills the process immediately.`

// Error is an error with an exit code.
type Error struct {
	Code int
	Err  error  // what failed
	Hint string // advice; may be empty
}

// Error returns the message without the hint.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the exit code for an error. Errors without a code come from package cobra, for unknown
// commands and flags.
func CodeOf(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeUsage
}

// Advised formats an error and its hint on one line.
func Advised(err error) string {
	text := terminal.OneLine(err.Error())
	if e, ok := errors.AsType[*Error](err); ok && e.Hint != "" {
		text += ": " + e.Hint
	}
	return text
}

// Args returns a cobra.PositionalArgs that checks the number of arguments. most is -1 for no limit.
func Args(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= least && (most < 0 || len(args) <= most) {
			return nil
		}
		return Usage("%s: want %s", terminal.Counted(len(args), "argument"), cmd.Use)
	}
}

// Usage returns an error for an invalid flag or argument.
func Usage(format string, args ...any) error {
	return &Error{Code: CodeUsage, Err: fmt.Errorf(format, args...)}
}

// Report prints an error and its hint, and returns its exit code (see [CodeOf]).
func Report(w io.Writer, cmd *cobra.Command, err error) int {
	if err == nil {
		return CodeOK
	}
	e, ok := errors.AsType[*Error](err)
	if !ok {
		e = &Error{Code: CodeOf(err), Err: err}
	}
	if e.Code == CodeUsage && e.Hint == "" {
		e.Hint = fmt.Sprintf("see %s --help", cmd.CommandPath())
	}
	fmt.Fprintf(w, "informer-debug: %s\n", terminal.OneLine(e.Error()))
	if e.Hint != "" {
		fmt.Fprintf(w, "  %s\n", e.Hint)
	}
	return e.Code
}
