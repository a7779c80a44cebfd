package debugtest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
)

// Result is the outcome of one run.
type Result struct {
	Code        int    // the exit code
	Out, ErrOut string // stdout and stderr
}

// Lines returns the lines of stdout.
func (r Result) Lines() []string { return strings.Split(strings.TrimSuffix(r.Out, "\n"), "\n") }

// Invoke runs the subcommand args[0].
func Invoke(t *testing.T, command func(terminal.Streams) *cobra.Command, args ...string) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var stdout, stderr Transcript
	s := Onto(&stdout, &stderr)
	root := &cobra.Command{Use: "informer-debug", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(command(s))
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if ctx.Err() != nil {
		t.Fatalf("the run did not end\nstdout: %s\nstderr: %s", &stdout, &stderr)
	}
	return Result{exit.Report(&stderr, cmd, err), stdout.String(), stderr.String()}
}
