package envtest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"
)

// stopTimeout is the time that a shutdown may take before the process is killed. The program itself
// gives up after ten seconds.
const stopTimeout = 15 * time.Second

// ready is the first line the program prints; see test/kube. If the program cannot start, only Error is
// set.
type ready struct {
	Error       string
	URL         string
	CA          string
	ClientCert  string
	ClientKey   string
	Kubeconfig  string
	AdminToken  string
	NobodyToken string
}

// answer is the line the program prints after each command; see test/kube.
type answer struct {
	Revision int64
	Error    string
}

// process is one run of the program in its control mode: commands on stdin, JSON lines
// on stdout. A single goroutine starts the process, reads its stdout and reaps it. stop and kill
// wait for that goroutine.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	log   string
	began int64         // log size before the start
	lines chan []byte   // closed at the end of stdout; buffers one line, such as a dying process's last message
	quit  chan struct{} // closed when no more lines will be received
	leave sync.Once     // closes quit
	done  chan struct{} // closed once the process is reaped
	err   error         // exit error; valid after done
	owed  int           // number of responses to skip; see receive
}

// startProcess starts the program, with its stderr appended to the log.
func startProcess(program string, args []string, log string) (*process, error) {
	stderr, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer stderr.Close() // the child has its own copy
	info, err := stderr.Stat()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, args...)
	cmd.Stderr = stderr
	cmd.SysProcAttr = wokenByDeath()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p := &process{
		cmd: cmd, stdin: stdin, log: log, began: info.Size(),
		lines: make(chan []byte, 1), quit: make(chan struct{}), done: make(chan struct{}),
	}
	started := make(chan error)
	go func() {
		// To the kernel, the parent is a thread, and it sends the signal when that thread dies.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.read(stdout)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

func (p *process) read(stdout io.Reader) {
	defer close(p.done)
	scan := bufio.NewScanner(stdout)
	for scan.Scan() {
		select {
		case p.lines <- append([]byte(nil), scan.Bytes()...):
		case <-p.quit: // keep reading so that the program does not block
		}
	}
	close(p.lines)
	p.err = errors.Join(scan.Err(), p.cmd.Wait())
}

// send sends a command.
func (p *process) send(command string) error {
	_, err := io.WriteString(p.stdin, command+"\n")
	return err
}

// receive waits for the response to the last command and decodes it. If ctx is done first, the next call
// skips that response.
func (p *process) receive(ctx context.Context, into any) error {
	for p.owed++; p.owed > 0; {
		select {
		case line, ok := <-p.lines:
			if !ok {
				<-p.done
				return fmt.Errorf("the process exited: %w", orExit0(p.err))
			}
			if p.owed--; p.owed > 0 {
				continue
			}
			if err := json.Unmarshal(line, into); err != nil {
				return fmt.Errorf("the process wrote %q: %w", line, err)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// over reports whether the process has exited and has been reaped.
func (p *process) over() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// orExit0 returns err, or an error for exit status 0 if err is nil.
func orExit0(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// stop requests a shutdown by closing stdin and waits for the process to exit. After stopTimeout it kills
// the process.
func (p *process) stop() error {
	p.leave.Do(func() { close(p.quit) })
	if err := p.stdin.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		p.kill()
		return err
	}
	select {
	case <-p.done:
		return p.err
	case <-time.After(stopTimeout):
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.done
	return fmt.Errorf("killed because it did not exit within %v", stopTimeout)
}

// kill kills the process and waits until it is reaped. It ignores the exit status, which is expected to
// be nonzero.
func (p *process) kill() {
	p.leave.Do(func() { close(p.quit) })
	_ = p.cmd.Process.Kill() // fails only if the process has already exited
	<-p.done
}

// tailLines and tailBytes limit the excerpt of the log in an error. crashBytes limits the search for the
// beginning of a crash report, which may contain thousands of stacks.
const (
	tailLines  = 40
	tailBytes  = 32 << 10
	crashBytes = 16 << 20
)

// crash matches the beginning of the runtime's crash report.
var crash = regexp.MustCompile(`(?m)^(panic: |fatal error: |SIG[A-Z]+: )`)

// said returns the excerpt of the process's log to include in an error: the end, or the beginning of a
// crash report.
func (p *process) said() string {
	text, err := readTail(p.log, p.began, crashBytes)
	if err != nil {
		return err.Error()
	}
	if len(text) == 0 {
		return fmt.Sprintf("its log %s is empty", p.log)
	}
	if at := crash.FindIndex(text); at != nil {
		lines := strings.SplitN(string(text[at[0]:]), "\n", tailLines+1)
		return "its log contains:\n" + strings.Join(lines[:min(len(lines), tailLines)], "\n")
	}
	return "its log ends with:\n" + tail(text)
}

// logTail returns the end of the log, or the reason why it cannot be read.
func logTail(name string) string {
	text, err := readTail(name, 0, tailBytes)
	if err != nil {
		return err.Error()
	}
	return tail(text)
}

// readTail returns a file's content from offset after on, limited to the last max bytes.
func readTail(name string, after, max int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	if after = min(end, after); end-after > max {
		after = end - max
	}
	return io.ReadAll(io.NewSectionReader(f, after, end-after))
}

// tail returns the last lines of a text.
func tail(text []byte) string {
	if len(text) > tailBytes {
		text = text[len(text)-tailBytes:]
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}
