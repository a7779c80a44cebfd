package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The suite contains every analyzer of go vet.
func TestSuiteMatchesGoVet(t *testing.T) {
	help, err := exec.Command("go", "tool", "vet", "help").Output()
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(help), "Registered analyzers:\n")
	list, _, _ = strings.Cut(list, "By default")
	var want, got []string
	for _, m := range regexp.MustCompile(`(?m)^    (\w+)`).FindAllStringSubmatch(list, -1) {
		want = append(want, m[1])
	}
	for _, a := range suite {
		got = append(got, a.Name)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the suite is %q\ngo vet has  %q", got, want)
	}
}

// Mistakes are found, in tests too, and in calls of Printf wrappers of another package.
func TestMistakesAreFound(t *testing.T) {
	dir := module(t, map[string]string{
		"log/log.go": "package log\n\nimport \"fmt\"\n\nfunc Say(format string, args ...any) { fmt.Printf(format, args...) }\n",
		"it.go":      "package it\n\nimport \"example.com/it/log\"\n\nfunc F() {\n\tlog.Say(\"%d\", \"x\")\n}\n",
		"it_test.go": "package it\n\nimport \"testing\"\n\nfunc TestF(t *testing.T) {\n\tt.Errorf(\"%d\")\n}\n",
		"good/ok.go": "package good\n\nfunc F() {}\n",
	})
	var out strings.Builder
	if err := check(t.Context(), dir, &out); !errors.Is(err, errFound) {
		t.Error(err)
	}
	for _, want := range []string{"it.go:6:", "Say format %d has arg", "it_test.go:6:", "reads arg #1"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing: %s", want, &out)
		}
	}
}

func TestGoodAndBrokenModules(t *testing.T) {
	var out strings.Builder
	if err := check(t.Context(), module(t, map[string]string{"it.go": "package it\n"}), &out); err != nil || out.Len() > 0 {
		t.Errorf("%v: %s", err, &out)
	}
	if err := check(t.Context(), module(t, map[string]string{"it.go": "package it\n\nvar x int = \"\"\n"}), &out); err == nil || !strings.Contains(err.Error(), "it.go:3") {
		t.Error(err)
	}
	if err := check(t.Context(), filepath.Join(t.TempDir(), "none"), &out); err == nil {
		t.Error("nothing is there, and that is no failure")
	}
}

// module writes the files of a module to a new directory.
func module(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module example.com/it\n\ngo 1.26\n"
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
