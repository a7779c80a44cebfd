package main

import (
	"strings"
	"testing"
)

// The command itself has only allowed dependencies.
func TestTheDependenciesOfThisModule(t *testing.T) {
	summary, err := check([]string{".."})
	if err != nil || !strings.Contains(summary, "Apache-2.0 2") {
		t.Errorf("got %q, %v", summary, err)
	}
}
