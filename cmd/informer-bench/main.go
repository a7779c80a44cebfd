// Command informer-bench compares Millrace with client-go and controller-runtime. They do the same work
// on the same machine, in turn.
//
//	informer-bench list
//	informer-bench run --scenario sync-protobuf,watch-protobuf --rounds 5 --json results.json
//	informer-bench report results.json
//
// Every contestant is a separate program. The harness builds it from the directory bench/contestants of
// the repository and runs it once a round, in turn (A B A B), against a server in another process that
// has encoded everything in advance. At the marks that a contestant sets, the harness reads wall and CPU
// time and peak memory from the operating system. It compares the final caches of the contestants; if
// two differ, the run fails.
//
// Absolute figures depend on the machine and the time of the run. Ratios are portable, because each is
// taken within one round. Targets apply to the median ratio.
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

// newManualCommand returns the hidden verb "man DIR", which writes the manual pages for a release. The
// pages are dated SOURCE_DATE_EPOCH if it is set.
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
			cmd.Root().DisableAutoGenTag = true // it would add today's date
			return doc.GenManTree(cmd.Root(), &doc.GenManHeader{Section: "1", Manual: "INFORMER-BENCH"}, args[0])
		},
	}
}
