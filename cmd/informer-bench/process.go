package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

// process is another program with which we exchange lines of JSON.
type process struct {
	name    string
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	in      *json.Encoder
	out     *bufio.Scanner
	grumble *tail
}

// letGo is how long to wait for a program's remaining output after it has exited or been killed. Its children
// may keep the output open.
const letGo = time.Second

// launch starts a program, which is killed when ctx is done.
func launch(ctx context.Context, name, path string, args ...string) (*process, error) {
	p := &process{name: name, cmd: exec.CommandContext(ctx, path, args...), grumble: &tail{}}
	p.cmd.Stderr = p.grumble
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p.cmd.WaitDelay = letGo
	p.cmd.Cancel = func() error {
		time.AfterFunc(letGo, func() { _ = stdout.Close() }) // no one reads it any more
		return p.cmd.Process.Kill()
	}
	p.in, p.out = json.NewEncoder(p.stdin), bufio.NewScanner(stdout)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// say sends one message.
func (p *process) say(v any) error {
	if err := p.in.Encode(v); err != nil {
		return fmt.Errorf("tell %s: %w", p.name, err)
	}
	return nil
}

// hear receives one message.
func (p *process) hear(v any) error {
	if !p.out.Scan() {
		if err := p.out.Err(); err != nil { // the program may still be running, so don't wait for it
			return fmt.Errorf("read from %s: %w", p.name, err)
		}
		err := p.wait()
		if err == nil {
			err = errors.New("exit status 0")
		}
		return fmt.Errorf("%s ended early: %w", p.name, err)
	}
	if err := json.Unmarshal(p.out.Bytes(), v); err != nil {
		return fmt.Errorf("%s said %q: %w", p.name, p.out.Bytes(), err)
	}
	return nil
}

// end closes the program's stdin and waits for the program to exit.
func (p *process) end() error {
	return errors.Join(p.stdin.Close(), p.wait())
}

// kill kills the program and ignores its exit status.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func (p *process) wait() error {
	if p.cmd.ProcessState != nil {
		return nil
	}
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w: %s", p.name, err, p.grumble)
	}
	return nil
}

// tail is a writer that keeps only the last bytes written to it.
type tail struct{ kept []byte }

const tailSize = 4 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.kept = append(t.kept, b...)
	if len(t.kept) > tailSize {
		t.kept = bytes.Clone(t.kept[len(t.kept)-tailSize:])
	}
	return len(b), nil
}

func (t *tail) String() string { return strings.TrimSpace(string(t.kept)) }
