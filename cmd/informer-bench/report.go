package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"
)

// newReportCommand returns the command that runs the program in bench/report. Like the contestants, that
// program is a separate module, which keeps the chart library out of Millrace's dependencies.
func newReportCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "report RESULTS.json",
		Short: "Write results/benchmarks.md and charts from a results file",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return report(cmd.Context(), args[0], out, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&out, "out", ".", "output directory of results/benchmarks.md, bench/out/overview.svg and bench/out/charts")
	return cmd
}

// report builds the program and runs it. The program lists the files it writes on stdout and reports problems
// on stderr.
func report(ctx context.Context, results, out string, stdout, stderr io.Writer) (err error) {
	root, err := repository()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "informer-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	program := filepath.Join(dir, "report")
	if _, err := goTool(ctx, filepath.Join(root, "bench", "report"), "build", "-o", program, "."); err != nil {
		return fmt.Errorf("build the report program: %w", err)
	}
	cmd := exec.CommandContext(ctx, program, results, "--out", out)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("create the report: %w", err)
	}
	return nil
}
