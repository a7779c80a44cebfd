// Command report creates results/benchmarks.md and its charts from a results file of informer-bench.
// informer-bench calls it:
//
//	informer-bench report results.json
//	go -C bench/report run . ../../results.json --out ../..
//
// It is a separate module so that its chart library does not become a dependency of Millrace's commands or of
// programs that import Millrace.
//
// The same file always produces the same bytes. It removes charts left by earlier reports from
// bench/out/charts below --out.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
)

func main() {
	if err := newCommand().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:           "report RESULTS.json",
		Short:         "Write results/benchmarks.md and charts from a results file",
		Args:          cobra.ExactArgs(1),
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := results.Load(args[0])
			if err != nil {
				return err
			}
			written, err := write(r, out)
			for _, path := range written {
				fmt.Fprintln(cmd.OutOrStdout(), path)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&out, "out", ".", "output directory of results/benchmarks.md, bench/out/overview.svg and bench/out/charts")
	return cmd
}
