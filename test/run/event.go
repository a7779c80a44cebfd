package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// event is a line of go test -json. See go doc test2json, and go help buildjson for build events.
type event struct {
	Action      string
	Package     string
	ImportPath  string // set for build events
	Test        string
	Elapsed     float64 // in seconds
	Output      string
	FailedBuild string // import path of the failed build that made the package fail
}

// goTest runs a job and counts its results.
func (t *tally) goTest(ctx context.Context, j job) {
	before := t.failures()
	cmd := exec.CommandContext(ctx, "go", append(append([]string{"test", "-json"}, j.flags...), j.packages...)...)
	cmd.Dir, cmd.Stderr = j.dir, os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.broken(fmt.Sprintf("%s: %v", j, err))
		return
	}
	readErr := t.read(stdout)
	if err := cmd.Wait(); err != nil && t.failures() == before && ctx.Err() == nil {
		t.broken(fmt.Sprintf("%s: %v", j, err)) // cannot be attributed to a package
	}
	if readErr != nil {
		t.broken(fmt.Sprintf("%s: read its output: %v", j, readErr))
	}
}

// read processes the output of one go test. It prints lines that are not events.
func (t *tally) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var e event
			if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &e) != nil {
				t.print(line)
			} else {
				t.take(e)
			}
		}
		if err == io.EOF {
			t.end()
			return nil
		}
		if err != nil {
			t.end()
			return err
		}
	}
}
