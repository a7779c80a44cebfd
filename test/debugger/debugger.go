// Package debugger runs the informer-debug binary, to test output intended for other programs.
package debugger

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// runWithin is the time limit for a run.
const runWithin = time.Minute

// Debugger runs the informer-debug binary. It is not safe for concurrent use.
type Debugger struct {
	testing.TB
	Flags []string // appended to all arguments

	program string
}

// New builds the program. root is the root directory of the repository.
func New(t testing.TB, root string) *Debugger {
	t.Helper()
	program := filepath.Join(t.TempDir(), "informer-debug")
	out, err := exec.CommandContext(t.Context(), "go", "-C", filepath.Join(root, "cmd", "informer-debug"), "build", "-o", program, ".").CombinedOutput()
	if err != nil {
		t.Fatalf("build informer-debug: %v\n%s", err, out)
	}
	return &Debugger{TB: t, program: program}
}

// In returns a [Debugger] for a subtest, with the same binary but different flags.
func (d *Debugger) In(t testing.TB, flags ...string) *Debugger {
	return &Debugger{TB: t, program: d.program, Flags: flags}
}

// Run runs the program, fails the test unless it exits with code, and returns its stdout.
func (d *Debugger) Run(code int, args ...string) string {
	d.Helper()
	out, _ := d.Said(code, args...)
	return out
}

// Said is like Run, and also returns stderr.
func (d *Debugger) Said(code int, args ...string) (stdout, stderr string) {
	d.Helper()
	out, errOut, ended := d.run(args)
	if ended != code {
		d.Fatalf("informer-debug %s ended with %d and not with %d\n%s%s", strings.Join(args, " "), ended, code, out, errOut)
	}
	return out, errOut
}

// Until repeats the run until the program exits with code and its stdout contains text.
func (d *Debugger) Until(text string, code int, args ...string) string {
	d.Helper()
	for end := time.Now().Add(runWithin); ; time.Sleep(50 * time.Millisecond) {
		out, errOut, ended := d.run(args)
		if ended == code && strings.Contains(out, text) {
			return out
		}
		if time.Now().After(end) {
			d.Fatalf("informer-debug %s does not say %q and end with %d; it ended with %d\n%s%s", strings.Join(args, " "), text, code, ended, out, errOut)
		}
	}
}

func (d *Debugger) run(args []string) (stdout, stderr string, code int) {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), runWithin)
	defer cancel()
	var out, errOut bytes.Buffer
	cmd := exec.CommandContext(ctx, d.program, append(args, d.Flags...)...)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	if e, ok := errors.AsType[*exec.ExitError](err); ok && ctx.Err() == nil {
		return out.String(), errOut.String(), e.ExitCode()
	}
	if err != nil {
		d.Fatalf("informer-debug %s: %v\n%s%s", strings.Join(args, " "), err, &out, &errOut)
	}
	return out.String(), errOut.String(), 0
}

// Top runs informer-debug top in a real terminal until the screen has shown all texts, and then quits it. It
// needs tmux. If tmux is missing, Top fails the test under CI, and otherwise does nothing.
func (d *Debugger) Top(texts ...string) {
	d.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		if os.Getenv("CI") != "" {
			d.Fatalf("%v: apt-get install tmux", err)
		}
		d.Logf("top is not tried out: %v", err)
		return
	}
	socket := filepath.Join(d.TempDir(), "tmux")
	tmux := func(args ...string) string {
		d.Helper()
		cmd := exec.CommandContext(d.Context(), "tmux", append([]string{"-S", socket, "-f", os.DevNull}, args...)...)
		cmd.Env = append(os.Environ(), "TERM=xterm")
		out, err := cmd.CombinedOutput()
		if err != nil {
			d.Fatalf("tmux %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	shows := func(text string) {
		d.Helper()
		screen := ""
		for end := time.Now().Add(runWithin / 2); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			if screen = tmux("capture-pane", "-p"); strings.Contains(screen, text) {
				return
			}
		}
		d.Fatalf("the screen does not have %q:\n%s", text, screen)
	}
	// The shell keeps running after top has quit, and prints its exit code.
	tmux("new-session", "-d", "-x", "120", "-y", "30", d.program+" top "+strings.Join(d.Flags, " ")+"; echo left $?; cat")
	defer tmux("kill-server")
	for _, text := range texts {
		shows(text)
	}
	tmux("send-keys", "q")
	shows("left 0")
}
