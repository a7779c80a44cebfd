package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/exit"
	"github.com/millrace-dev/millrace/cmd/informer-debug/internal/terminal"
)

// result is what one run left.
type result struct {
	code        int
	out, errOut string
}

// lines are those of stdout.
func (r result) lines() []string { return strings.Split(strings.TrimSuffix(r.out, "\n"), "\n") }

// invokeOne runs one verb, the first of args.
func invokeOne(t *testing.T, command func(terminal.Streams) *cobra.Command, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var stdout, stderr transcript
	s := onto(&stdout, &stderr)
	root := &cobra.Command{Use: "informer-debug", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(command(s))
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	require.NoError(t, ctx.Err(), "the run did not end by itself\nstdout: %s\nstderr: %s", &stdout, &stderr)
	return result{exit.Report(&stderr, cmd, err), stdout.String(), stderr.String()}
}
