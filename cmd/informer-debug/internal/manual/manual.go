// Package manual writes the manual pages of a command.
package manual

import (
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// Command is the hidden verb "man DIR", with which releases make their manual pages:
// one for each verb. The date in them is that of SOURCE_DATE_EPOCH, or else today.
func Command() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write the manual pages to a directory",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true // it has today's date
			return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Manual: strings.ToUpper(root.Name())}, args[0])
		},
	}
}
