package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/millrace-dev/millrace/cmd/informer-bench/results"
	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
)

func newListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the scenarios, what they measure, and Millrace's targets",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return writeList(cmd.OutOrStdout()) },
	}
}

func writeList(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "GROUP\tSCENARIO\tMEASURES\tTARGETS") // Flush reports the first write error
	for _, s := range scenario.All() {
		var targets []string
		for _, t := range results.Targets() {
			if t.Scenario == s.Name {
				targets = append(targets, t.String())
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", s.Group, s.Name, s.Measures, strings.Join(targets, ", "))
	}
	return w.Flush()
}
