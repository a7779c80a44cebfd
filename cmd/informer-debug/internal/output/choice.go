package output

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Choice is a flag with a fixed set of values.
type Choice struct {
	Value string   // one of the values, or empty
	Words []string // the allowed words
}

// Add registers the --output flag with a command, including completion.
func (c *Choice) Add(cmd *cobra.Command, usage string) {
	cmd.Flags().VarP(c, "output", "o", usage)
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(c.Words, cobra.ShellCompDirectiveNoFileComp)) // fails only if the flag does not exist
}

// String returns the value.
func (c *Choice) String() string { return c.Value }

// Type returns the possible values, for the help text.
func (c *Choice) Type() string { return strings.Join(c.Words, "|") }

// Set sets the value. It returns an error if word is not allowed.
func (c *Choice) Set(word string) error {
	if !slices.Contains(c.Words, word) {
		return fmt.Errorf("want one of %s", strings.Join(c.Words, ", "))
	}
	c.Value = word
	return nil
}
