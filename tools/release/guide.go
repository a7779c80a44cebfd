package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// fenced matches a fenced block in a document: its language, its file name if there is one, and its
// text.
var fenced = regexp.MustCompile("(?ms)^```(\\w+)(?: (\\S+))?\n(.*?)^```$")

// asScript turns a guide into a shell script. The script writes each block with a file name to that
// file, and runs the lines in console blocks that start with "$ " unchanged. It stops at the first
// failure, and kills the processes it has started with "&".
func asScript(guide string) (string, error) {
	script := "set -e\ntrap 'test -z \"$!\" || kill $! 2>/dev/null || true' EXIT\n"
	commands := 0
	for _, block := range fenced.FindAllStringSubmatch(guide, -1) {
		language, file, text := block[1], block[2], block[3]
		switch {
		case file != "":
			if strings.Contains(text, endOfFile) {
				return "", fmt.Errorf("%s has %s in it", file, endOfFile)
			}
			script += fmt.Sprintf("mkdir -p '%s'\ncat > '%s' <<'%s'\n%s%[3]s\n", filepath.ToSlash(filepath.Dir(file)), file, endOfFile, text)
		case language == "console":
			for line := range strings.Lines(text) {
				if command, ok := strings.CutPrefix(line, "$ "); ok {
					commands++
					script += fmt.Sprintf("echo '$ %s'\n%s", strings.ReplaceAll(strings.TrimSpace(command), "'", `'\''`), command)
				}
			}
		}
	}
	if commands == 0 {
		return "", fmt.Errorf("it contains no commands")
	}
	return script, nil
}

const endOfFile = "END_OF_FILE"

// guide implements the script command. In the guide, $MILLRACE is a clone of the repository.
func guide(ts *testscript.TestScript, documents string, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: guide DOCUMENT FILE")
	}
	text, err := os.ReadFile(filepath.Join(documents, args[0]))
	ts.Check(err)
	script, err := asScript(string(text))
	if err != nil {
		ts.Fatalf("%s: %v", args[0], err)
	}
	ts.Setenv("MILLRACE", documents)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(script), 0o644))
}

// same implements the script command.
func same(ts *testscript.TestScript, documents string, args []string) {
	if len(args) < 1 {
		ts.Fatalf("usage: same FOLDER [EXCEPT]...")
	}
	except := map[string]bool{}
	for _, name := range args[1:] {
		except[name] = true
	}
	folder := os.DirFS(filepath.Join(documents, args[0]))
	ts.Check(fs.WalkDir(folder, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || except[name] {
			return err
		}
		want, err := fs.ReadFile(folder, name)
		if err != nil {
			return err
		}
		got, err := os.ReadFile(ts.MkAbs(name))
		if err == nil && !bytes.Equal(got, want) {
			err = fmt.Errorf("%s differs from %s", name, args[0])
		}
		return err
	}))
}
