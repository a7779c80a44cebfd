package output

import (
	"fmt"
	"slices"
	"strings"
)

// Choice is a flag whose value is one of a few words.
type Choice struct {
	Value string   // one of the words, or empty
	Words []string // that may be chosen
}

// String returns the value.
func (c *Choice) String() string { return c.Value }

// Type names the words in the help text.
func (c *Choice) Type() string { return strings.Join(c.Words, "|") }

// Set takes one of the words.
func (c *Choice) Set(word string) error {
	if !slices.Contains(c.Words, word) {
		return fmt.Errorf("want one of %s", strings.Join(c.Words, ", "))
	}
	c.Value = word
	return nil
}
