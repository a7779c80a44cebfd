package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestProve(t *testing.T) {
	r := repository(t)
	all := []proof{
		{"count", "echo run >> $RUNS; echo '7 | counted: Get \"http://x\": lookup x on 10.0.0.1'; echo else", "counted", "", ":!other"},
		{"fail", "echo broken; exit 3", "broken", "", ""},
		{"page", "echo $VERSION > results/p.md", "", "p.md", ""},
	}
	runs := filepath.Join(t.TempDir(), "runs")
	t.Setenv("RUNS", runs)
	page := func(wantRuns int, want ...string) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(r.repo, "results", "v0.2.0.md"))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range want {
			if !strings.Contains(string(text), part) {
				t.Errorf("no %q in:\n%s", part, text)
			}
		}
		said, err := os.ReadFile(runs)
		if err != nil || strings.Count(string(said), "run") != wantRuns {
			t.Errorf("got %q, %v; want %d runs", said, err, wantRuns)
		}
	}

	if err := r.prove(t.Context(), all, "count"); err == nil || err.Error() != "not proven: fail, page" {
		t.Errorf("got %v", err)
	}
	page(1, "; echo else` | 7  counted | ", "| fail | `echo broken; exit 3` | **has not run** |")
	if err := r.prove(t.Context(), all, ""); err == nil || err.Error() != "not proven: fail" {
		t.Errorf("got %v", err)
	}
	page(1, "**failed**: broken<br>exit status 3", "| page | `echo v0.2.0 > results/p.md` | [p.md](p.md) | ")

	commit(t, r, "status") // only results
	if err := r.prove(t.Context(), all, "count"); err == nil {
		t.Error("a failure was forgotten")
	}
	page(1)
	write(t, filepath.Join(r.repo, "other"), "changed")
	commit(t, r, "status")
	if err := r.prove(t.Context(), all, "count"); err == nil {
		t.Error("a failure was forgotten")
	}
	page(1)
	write(t, filepath.Join(r.repo, "forgotten.go"), "package mill")
	if err := r.prove(t.Context(), all, ""); err == nil || !strings.HasPrefix(err.Error(), "changed since HEAD: forgotten.go") {
		t.Errorf("got %v", err)
	}
	write(t, filepath.Join(r.repo, "mill.go"), "package mill")
	if err := r.prove(t.Context(), all, ""); err == nil || !strings.HasPrefix(err.Error(), "changed since HEAD: mill.go, forgotten.go") {
		t.Errorf("got %v", err)
	}
	commit(t, r, "status")
	if err := r.prove(t.Context(), all, "none"); err == nil || err.Error() != "not proven: count, fail, page" {
		t.Errorf("got %v", err)
	}
	page(1, "(the code has changed since)")
	if err := r.prove(t.Context(), all, "count"); err == nil {
		t.Error("a failure was forgotten")
	}
	page(2)
}

// The simulations do not run the code that their proofs exclude.
func TestOuterCode(t *testing.T) {
	for dir, packages := range map[string]string{"../../test/simulation": "./...", "../..": "./shard/membership ./sharedinformer ./manager"} {
		list := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps", "-test"}, strings.Fields(packages)...)...)
		list.Dir = dir
		imported, err := list.Output()
		if err != nil || !strings.Contains(string(imported), "/deltafifo\n") {
			t.Fatalf("got %q, %v", imported, err)
		}
		for _, path := range strings.Fields(outerCode) {
			if strings.Contains(string(imported), "millrace/"+strings.TrimPrefix(path, ":!")) {
				t.Errorf("%s runs %s", packages, path)
			}
		}
	}
}
