// Command informer-bench compares the performance of Millrace, client-go and controller-runtime. It makes
// them take turns doing the same work on the same machine.
//
//	informer-bench list
//	informer-bench run --scenario sync-protobuf,watch-protobuf --rounds 5 --json results.json
//	informer-bench report results.json
//
// Every contestant is a separate program, built from the repository's bench/contestants directory. The
// harness runs them alternately (A B A B), once per round, against a server in another process that has
// encoded everything in advance. Whenever a contestant sets a mark, the harness reads its wall and CPU time
// and its peak memory from the operating system. It compares the contestants' final caches; the run fails if
// any two differ.
//
// Absolute figures depend on the machine and on when they were measured. Ratios are portable, because each
// compares two runs in the same round. Targets apply to the median ratio.
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
	context.AfterFunc(ctx, stop) // a second signal kills the process
	if err := newRootCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "informer-bench:", err)
		os.Exit(1)
	}
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "informer-bench",
		Short:         "Compare Millrace's performance with client-go's",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newListCommand(), newRunCommand(), newReportCommand(), newServeCommand(), newManualCommand())
	return root
}

// newManualCommand returns the hidden command "man DIR", which writes a release's manual pages. They carry
// the date from SOURCE_DATE_EPOCH, if set.
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
