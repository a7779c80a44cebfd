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
	"strings"
	"time"
)

// stopTimeout is how long a shutdown may take before the process is killed. The
// program ends itself after ten seconds.
const stopTimeout = 15 * time.Second

// ready is the first line that the program writes; see test/kube.
type ready struct {
	URL         string
	CA          string
	ClientCert  string
	ClientKey   string
	Kubeconfig  string
	AdminToken  string
	NobodyToken string
}

// answer is the line that the program writes after each command; see test/kube.
type answer struct {
	Revision int64
	Error    string
}

// process is one run of the program in its control mode: commands on stdin,
// JSON lines on stdout. One goroutine reads stdout and then reaps the process;
// it ends with the process, and stop and kill wait for it.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines chan []byte   // closed when stdout ends
	quit  chan struct{} // closed when nobody receives lines any more
	done  chan struct{} // closed when the process is reaped
	err   error         // how it ended; read after done
	owed  int           // answers that nobody waited for; see receive
}

// startProcess starts the program with its stderr appended to the log.
func startProcess(program string, args []string, log string) (*process, error) {
	stderr, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer stderr.Close() // the child has its own copy
	cmd := exec.Command(program, args...)
	cmd.Stderr = stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{
		cmd: cmd, stdin: stdin,
		lines: make(chan []byte), quit: make(chan struct{}), done: make(chan struct{}),
	}
	go p.read(stdout)
	return p, nil
}

func (p *process) read(stdout io.Reader) {
	defer close(p.done)
	scan := bufio.NewScanner(stdout)
	for scan.Scan() {
		select {
		case p.lines <- append([]byte(nil), scan.Bytes()...):
		case <-p.quit: // read on, so that the program is not blocked
		}
	}
	close(p.lines)
	p.err = errors.Join(scan.Err(), p.cmd.Wait())
}

// send writes one command.
func (p *process) send(command string) error {
	_, err := io.WriteString(p.stdin, command+"\n")
	return err
}

// receive waits for the line that answers the last command and decodes it. When
// the context ends first, that line is still to come, and the next call passes
// over it.
func (p *process) receive(ctx context.Context, into any) error {
	for p.owed++; p.owed > 0; {
		select {
		case line, ok := <-p.lines:
			if !ok {
				<-p.done
				return fmt.Errorf("the process ended: %w", orExit0(p.err))
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

// orExit0 puts the absence of an error into words.
func orExit0(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// stop asks for a shutdown by closing stdin and waits for the end, if need be by
// force.
func (p *process) stop() error {
	close(p.quit)
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
	return fmt.Errorf("killed, as it had not ended after %v", stopTimeout)
}

// kill ends the process at once and waits until it is reaped. That it ended
// badly is the intention; there is nothing to report.
func (p *process) kill() {
	select {
	case <-p.quit:
	default:
		close(p.quit)
	}
	_ = p.cmd.Process.Kill() // fails only if it has ended already
	<-p.done
}

// tailLines and tailBytes bound how much of the log an error quotes.
const (
	tailLines = 40
	tailBytes = 32 << 10
)

// logTail returns the end of the log, or why there is none.
func logTail(name string) string {
	f, err := os.Open(name)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if end, err := f.Seek(0, io.SeekEnd); err != nil || end > tailBytes {
		if _, err := f.Seek(-tailBytes, io.SeekEnd); err != nil {
			return err.Error()
		}
	} else if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err.Error()
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}
