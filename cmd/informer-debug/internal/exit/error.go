package exit

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
)

// The exit codes, as Help tells users of them.
const (
	CodeOK          = 0
	CodeRuntime     = 1
	CodeUsage       = 2
	CodeUnavailable = 3
	CodeFalse       = 4
	CodeTimeout     = 124
)

// See says where the exit codes are listed, at the end of the help of a verb.
const See = `"informer-debug --help" lists the exit codes.`

// Help tells users of the exit codes, at the end of the help of the program.
const Help = `Exit codes:
  0    done, or ended by Ctrl-C, by --count, or by demo's --duration
  1    runtime error, for example stdout was closed; Ctrl-C before there was an answer to show
  2    usage: a flag, a selector or an argument is wrong
  3    cannot connect, not allowed, the server does not serve TYPE, or an object that is named is
       not there
  4    what was asked about is not so: of check, a cache differs from the server; of doctor, there is a problem;
       of wait, a recording is over
  124  --timeout expired, as with timeout(1)
A second Ctrl-C kills at once.`

// Error is an error that decides the exit code.
type Error struct {
	Code int
	Err  error  // what failed
	Hint string // what to do about it; may be empty
}

// Error is what failed.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf is the exit code of an error. One that decides none is one of package cobra: an unknown
// command or flag.
func CodeOf(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeUsage
}

// Advised is an error and what to do about it, in one line.
func Advised(err error) string {
	text := terminal.OneLine(err.Error())
	if e, ok := errors.AsType[*Error](err); ok && e.Hint != "" {
		text += ": " + e.Hint
	}
	return text
}

// Args lets a verb have so many arguments; most is -1 for any number.
func Args(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= least && (most < 0 || len(args) <= most) {
			return nil
		}
		return Usage("%s: want %s", terminal.Counted(len(args), "argument"), cmd.Use)
	}
}

// Usage returns the error of a flag or an argument that is wrong.
func Usage(format string, args ...any) error {
	return &Error{Code: CodeUsage, Err: fmt.Errorf(format, args...)}
}

// Report writes what failed and what to do about it, and returns the exit code, which CodeOf says.
func Report(w io.Writer, cmd *cobra.Command, err error) int {
	if err == nil {
		return CodeOK
	}
	e, ok := errors.AsType[*Error](err)
	if !ok {
		e = &Error{Code: CodeOf(err), Err: err}
	}
	if e.Code == CodeUsage && e.Hint == "" {
		e.Hint = fmt.Sprintf("%s --help tells more", cmd.CommandPath())
	}
	fmt.Fprintf(w, "informer-debug: %s\n", terminal.OneLine(e.Error()))
	if e.Hint != "" {
		fmt.Fprintf(w, "  %s\n", e.Hint)
	}
	return e.Code
}
