// Command informer-bench measures Millrace beside client-go and
// controller-runtime: the same work on the same machine, in turn.
//
//	informer-bench list
//	informer-bench run --scenario sync-protobuf,watch-protobuf --rounds 5 --json results.json
//	informer-bench report results.json
//
// Every contestant is a program of its own, which the harness builds from the
// directory bench/contestants of the repository and runs once a round, in turn (A B A B),
// against a server that has everything encoded beforehand and is a process of
// its own, too. Wall and CPU time and peak memory are read from the operating
// system at the marks that a contestant sets; what a contestant has in its
// cache at the end is compared, and a run in which two differ fails.
//
// Absolute figures belong to a machine and an hour. What can be carried away are
// the ratios: each is taken within one round, and their median is what targets
// are held against.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal kills
	if err := newRootCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "informer-bench:", err)
		os.Exit(1)
	}
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "informer-bench",
		Short:         "Measure Millrace beside client-go",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newListCommand(), newRunCommand(), newReportCommand(), newServeCommand(), newManualCommand())
	return root
}

// newManualCommand returns the hidden verb "man DIR", which a release calls for its manual
// pages. SOURCE_DATE_EPOCH, if set, is their date.
func newManualCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write the manual pages to a directory",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			cmd.Root().DisableAutoGenTag = true // it holds today's date
			return doc.GenManTree(cmd.Root(), &doc.GenManHeader{Section: "1", Manual: "INFORMER-BENCH"}, args[0])
		},
	}
}
