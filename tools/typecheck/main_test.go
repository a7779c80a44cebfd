package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Code that compiles only on this system is found, in tests too.
func TestMistakesOfOtherSystemsAreFound(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":        "module example.com/narrow\n\ngo 1.26\n",
		"wide.go":       "package narrow\n\nvar Wide = 1 << 40\n\nvar Here = here()\n",
		"here_linux.go": "package narrow\n\nfunc here() int { return 1 }\n",
		"wide_test.go":  "package narrow\n\nvar alsoWide = 1 << 41\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := check(t.Context(), dir, "linux/amd64"); err != nil || n == 0 {
		t.Errorf("linux/amd64: %d packages, %v", n, err)
	}
	for system, wanted := range map[string][]string{
		"linux/386":     {"wide.go:3:12", "wide_test.go:3:16"},
		"windows/arm64": {"undefined: here"},
	} {
		_, err := check(t.Context(), dir, system)
		for _, want := range wanted {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", system, err, want)
			}
		}
		if err != nil && len(strings.Split(err.Error(), "\n")) != len(wanted) {
			t.Errorf("%s: each mistake once, and no others: %v", system, err)
		}
	}
	if _, err := check(t.Context(), dir, "linux"); err == nil {
		t.Error("a system without an architecture")
	}
}
