package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A guide runs in order, its files are written as shown, and a failure ends it.
func TestAGuideIsAScript(t *testing.T) {
	const text = "# Guide\n\n```go a/b.go\npackage a // $HOME 'and' `more`\n```\n\nSee:\n\n```console\n$ cat a/b.go > copy\nwhat it prints\n$ sleep 100 &\n$ test -f copy\n```\n\n```sh\nfalse\n```\n\n```yaml copy\nk: v\n```\n"
	play := func(guide string) (dir string, err error) {
		dir = t.TempDir()
		script, err := asScript(guide)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sh")
		cmd.Dir = dir
		in := filepath.Join(dir, "script")
		write(t, in, script)
		cmd.Args = append(cmd.Args, in)
		return dir, cmd.Run()
	}
	dir, err := play(text)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a/b.go": "package a // $HOME 'and' `more`\n", "copy": "k: v\n"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	if _, err := play("```console\n$ false\n$ true\n```\n"); err == nil {
		t.Error("a command that fails was passed over")
	}
	if _, err := asScript("```sh\ntrue\n```\n"); err == nil {
		t.Error("a guide without a command was taken for one")
	}
}
