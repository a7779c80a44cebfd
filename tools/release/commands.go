package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// patience is how long a program may take to print the text that a script waits for.
const patience = 5 * time.Minute

type command = func(ts *testscript.TestScript, neg bool, args []string)

// commands returns the additional script commands:
//
//	block DOCUMENT N FILE             copies the Nth block of Go in a document of the release
//	guide DOCUMENT FILE               makes a shell script of a document of the release; see [asScript]
//	same FOLDER [EXCEPT]...           each file of a folder of the release is here, and the same
//	expand FILE                       puts environment variables into a file, as ${NAME}
//	serve NAME REGEXP PROGRAM [ARG]   runs a program to the end of the script, and sets the
//	                                  variable NAME to what the group in REGEXP matches
//	until REGEXP PROGRAM [ARG]        runs a program until REGEXP matches, then interrupts it;
//	                                  it must end with 0
func commands(documents string) map[string]command {
	return map[string]command{
		"block":  func(ts *testscript.TestScript, _ bool, args []string) { block(ts, documents, args) },
		"guide":  func(ts *testscript.TestScript, _ bool, args []string) { guide(ts, documents, args) },
		"same":   func(ts *testscript.TestScript, _ bool, args []string) { same(ts, documents, args) },
		"expand": expand,
		"serve":  serve,
		"until":  until,
	}
}

func block(ts *testscript.TestScript, documents string, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: block DOCUMENT N FILE")
	}
	text, err := os.ReadFile(filepath.Join(documents, args[0]))
	ts.Check(err)
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	blocks := strings.Split(string(text), "```go\n")[1:]
	if n < 1 || n > len(blocks) {
		ts.Fatalf("%s has %d blocks of Go", args[0], len(blocks))
	}
	code, _, _ := strings.Cut(blocks[n-1], "```")
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(code), 0o644))
}

func expand(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		text, err := os.ReadFile(ts.MkAbs(name))
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(os.Expand(string(text), ts.Getenv)), 0o644))
	}
}

func serve(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 3 {
		ts.Fatalf("usage: serve NAME REGEXP PROGRAM [ARG]...")
	}
	p := start(ts, args[1], args[2:])
	ts.Defer(func() { p.kill() })
	ts.Setenv(args[0], p.await(ts))
}

func until(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: until REGEXP PROGRAM [ARG]...")
	}
	p := start(ts, args[0], args[1:])
	ts.Defer(func() { p.kill() })
	ts.Logf("%s", p.await(ts))
	ts.Check(p.cmd.Process.Signal(os.Interrupt))
	select {
	case <-p.done:
	case <-time.After(patience):
		ts.Fatalf("%s goes on after an interrupt", args[1])
	}
	if p.err != nil {
		ts.Fatalf("%s ended with %v after an interrupt, having said:\n%s", args[1], p.err, p.said.String())
	}
}

// running is a running program. One goroutine reads its output to the end and then reaps it, while the
// goroutine that started it waits for done.
type running struct {
	cmd   *exec.Cmd
	said  strings.Builder // read after done
	found chan string     // the first match; closed at the end of the output
	done  chan struct{}
	err   error // how it exited; valid after done
}

func start(ts *testscript.TestScript, expression string, args []string) *running {
	want, err := regexp.Compile(expression)
	ts.Check(err)
	program, err := exec.LookPath(args[0])
	if inPath := filepath.Join(ts.Getenv("GOBIN"), args[0]); err != nil {
		program, err = exec.LookPath(inPath)
	}
	if strings.HasPrefix(args[0], "./") {
		program, err = ts.MkAbs(args[0]), nil
	}
	ts.Check(err)
	p := &running{cmd: exec.Command(program, args[1:]...), found: make(chan string, 1), done: make(chan struct{})}
	p.cmd.Dir = ts.MkAbs(".")
	for _, name := range environmentOf {
		p.cmd.Env = append(p.cmd.Env, name+"="+ts.Getenv(name))
	}
	out, in, err := os.Pipe()
	ts.Check(err)
	p.cmd.Stdout, p.cmd.Stderr = in, in
	err = p.cmd.Start()
	in.Close()
	if err != nil {
		out.Close()
		ts.Check(err)
	}
	go p.read(out, want)
	return p
}

// environmentOf returns the environment variables passed to a program in a script.
var environmentOf = []string{"PATH", "HOME", "TMPDIR", "KUBECONFIG", "GOMODCACHE", "GOCACHE", "GOPROXY", "GONOSUMDB", "GOFLAGS", "XDG_CACHE_HOME"}

func (p *running) read(out io.ReadCloser, want *regexp.Regexp) {
	defer close(p.done)
	defer out.Close()
	matched := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		p.said.WriteString(lines.Text() + "\n")
		if m := want.FindStringSubmatch(lines.Text()); m != nil && !matched {
			matched = true
			p.found <- m[len(m)-1]
		}
	}
	close(p.found)
	p.err = p.cmd.Wait()
}

// await waits for the expected text and returns it.
func (p *running) await(ts *testscript.TestScript) string {
	select {
	case text, ok := <-p.found:
		if ok {
			return text
		}
		<-p.done
		ts.Fatalf("%s ended (%v) without saying it, but:\n%s", p.cmd, p.err, p.said.String())
	case <-time.After(patience):
		p.kill()
		ts.Fatalf("%s has not said it after %v, but:\n%s", p.cmd, patience, p.said.String())
	}
	return ""
}

func (p *running) kill() {
	_ = p.cmd.Process.Kill() // fails only if the process has exited
	<-p.done
}
