// Package manual writes a command's manual pages.
package manual

import (
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// Command returns the hidden command "man DIR", which writes a manual page for each subcommand. It is
// used for releases. The pages are dated SOURCE_DATE_EPOCH, or today if that is not set.
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
			root.DisableAutoGenTag = true // it would add today's date
			return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Manual: strings.ToUpper(root.Name())}, args[0])
		},
	}
}
