package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"time"
)

const (
	maxPluginOutput = 1 << 20 // in bytes; a credential with a certificate chain takes up a few KiB

	// Only the end of standard error is shown. More is kept until secrets have been removed, so that no
	// secret is cut in half and partially shown.
	shownPluginStderr = 2 << 10
	keptPluginStderr  = 64 << 10

	// pluginWaitDelay is how long to wait for a plugin's children to close its output after
	// the plugin exited or was killed.
	pluginWaitDelay = time.Second
)

// pluginOutput is the output of one run.
type pluginOutput struct {
	stdout []byte
	stderr string // the end of standard error, including secrets
}

// runPlugin runs an exec plugin until it exits, or kills it when ctx is done. On Unix it
// also kills the plugin's children, unless standard input is a terminal.
func runPlugin(ctx context.Context, e *Exec, info string, interactive bool) (pluginOutput, error) {
	stdout := &boundedBuffer{limit: maxPluginOutput}
	stderr := &tailBuffer{limit: keptPluginStderr}
	cmd := exec.CommandContext(ctx, e.Command, e.Args...)
	cmd.Env = append(os.Environ(), e.Env...)
	cmd.Env = append(cmd.Env, "KUBERNETES_EXEC_INFO="+info)
	cmd.WaitDelay = pluginWaitDelay
	if !stdinIsTerminal() { // if there is a terminal, Ctrl-C must reach the plugin
		endWhole(cmd)
	}
	cmd.Stdout = stdout
	cmd.Stderr = stderr
	if interactive {
		cmd.Stdin = os.Stdin
		cmd.Stderr = io.MultiWriter(os.Stderr, stderr) // its prompts must be visible
	}
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil {
		err = nil // the plugin succeeded, but one of its children still has the output open
	}
	if stdout.full {
		err = fmt.Errorf("it printed more than %d bytes", maxPluginOutput)
	}
	return pluginOutput{stdout: stdout.buf.Bytes(), stderr: strings.TrimSpace(string(stderr.tail))}, err
}

// describeRun explains why a plugin failed or could not run, with advice.
func describeRun(ctx context.Context, e *Exec, err error, stderr string) error {
	if ctx.Err() != nil {
		return fmt.Errorf("stopped before it printed a credential: %w", context.Cause(ctx))
	}
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		err = fmt.Errorf("it cannot be run: %w: install it or correct the path", err)
	} else {
		err = fmt.Errorf("it failed: %w", err)
	}
	err = withStderr(err, stderr)
	if e.InstallHint != "" {
		err = fmt.Errorf("%w\n%s", err, strings.TrimSpace(e.InstallHint))
	}
	return err
}

func withStderr(err error, stderr string) error {
	if stderr == "" {
		return err
	}
	return fmt.Errorf("%w; it wrote: %s", err, stderr)
}

// showStderr returns the last of the prose in standard error, without secrets.
func showStderr(stderr string, secrets []string) string {
	text := prose(scrub(stderr, secrets...))
	if cut := len(text) - shownPluginStderr; cut > 0 {
		text = "..." + text[cut:]
	}
	return text
}

// boundedBuffer is a Writer that fails once it is full, which stops the plugin.
type boundedBuffer struct {
	buf   bytes.Buffer
	limit int
	full  bool
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	if b.buf.Len()+len(p) > b.limit {
		b.full = true
		return 0, io.ErrShortWrite
	}
	return b.buf.Write(p)
}

// tailBuffer keeps the last bytes written to it.
type tailBuffer struct {
	tail  []byte
	limit int
}

func (b *tailBuffer) Write(p []byte) (int, error) {
	b.tail = append(b.tail, p...)
	if extra := len(b.tail) - b.limit; extra > 0 {
		b.tail = append(b.tail[:0], b.tail[extra:]...)
	}
	return len(p), nil
}

// stdinIsTerminal treats any character device except the null device as a terminal.
func stdinIsTerminal() bool {
	in, err := os.Stdin.Stat()
	if err != nil || in.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(in, null)
}
