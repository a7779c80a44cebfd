package main

import (
	"fmt"
	"slices"
	"strings"
)

// choice is a flag whose value is one of a few words.
type choice struct {
	value string
	words []string
}

// String returns the value.
func (c *choice) String() string { return c.value }

// Type names the words in the help text.
func (c *choice) Type() string { return strings.Join(c.words, "|") }

// Set takes one of the words.
func (c *choice) Set(word string) error {
	if !slices.Contains(c.words, word) {
		return fmt.Errorf("want one of %s", strings.Join(c.words, ", "))
	}
	c.value = word
	return nil
}
