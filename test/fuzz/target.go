package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// target is one fuzz function.
type target struct {
	pkg, dir string // the package's import path and directory
	name     string
}

func (t target) String() string { return t.pkg + " " + t.name }

// find returns the packages' targets.
func find(ctx context.Context, packages []string) ([]target, error) {
	list := exec.CommandContext(ctx, "go", append([]string{"list", "-f", `{{.ImportPath}} {{.Dir}}{{range .TestGoFiles}} {{.}}{{end}}{{range .XTestGoFiles}} {{.}}{{end}}`}, packages...)...)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", list, err)
	}
	var targets []target
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		for _, file := range fields[2:] {
			text, err := os.ReadFile(fields[1] + "/" + file)
			if err != nil {
				return nil, err
			}
			for _, found := range fuzzFunc.FindAllSubmatch(text, -1) {
				targets = append(targets, target{fields[0], fields[1], string(found[1])})
			}
		}
	}
	return targets, nil
}

var (
	fuzzFunc = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(f \*testing\.F\)`)
	progress = regexp.MustCompile(`^fuzz: elapsed: .*, execs: (\d+) \(`)

	// raced matches the output of a Go 1.26 test binary that misreports a timeout as a failed target; see
	// go.dev/issue/75804. Real failures include an input.
	raced = regexp.MustCompile(`(?m)^--- FAIL: Fuzz\w+ \(.*\)\n +context deadline exceeded\nFAIL$`)
)

// ran is the work done by a target.
type ran struct {
	execs int
	took  time.Duration
}

// fuzz runs the target for a duration, such as "1m", or a number of inputs, such as "100x". It runs one
// single-CPU process per CPU, because a process with several CPUs spends a fifth of its time waiting for its
// threads.
func (t target) fuzz(ctx context.Context, w *workbench, budget string) (ran, error) {
	binary, err := w.binary(ctx, t.pkg, w.instrumented()...)
	if err != nil {
		return ran{}, err
	}
	cmd := exec.CommandContext(ctx, binary, "-test.run=^$", "-test.fuzz=^"+t.name+"$", "-test.fuzztime="+budget, "-test.fuzzminimizetime=20x",
		"-test.fuzzcachedir="+w.reached(t.pkg), fmt.Sprint("-test.parallel=", runtime.GOMAXPROCS(0)), "-test.timeout=0", "-test.paniconexit0")
	cmd.Dir = t.dir
	cmd.Env = append(cmd.Environ(), "GOMAXPROCS=1")
	interruptible(cmd)
	cmd.WaitDelay = 10 * time.Second
	out, in := io.Pipe()
	cmd.Stdout, cmd.Stderr = in, in
	fmt.Println(t)
	began := time.Now()
	ended := make(chan error, 1)
	if err := cmd.Start(); err != nil {
		return ran{}, err
	}
	go func() {
		err := cmd.Wait()
		in.Close()
		ended <- err
	}()
	execs, said := follow(out)
	err = <-ended
	if err == nil || ctx.Err() != nil || raced.MatchString(said) {
		err = nil // an interrupt is not a failure
	} else {
		err = errors.Join(err, errors.New(said))
	}
	return ran{execs, time.Since(began).Round(time.Second)}, err
}

// follow reads a test binary's output until EOF. It returns the last count, and the end of all other
// output.
func follow(out io.Reader) (execs int, said string) {
	var rest bytes.Buffer
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadString('\n')
		if found := progress.FindStringSubmatch(line); found != nil {
			execs, _ = strconv.Atoi(found[1]) // digits; 0 if they overflow
		} else {
			rest.WriteString(line)
		}
		if err != nil {
			break
		}
	}
	text := rest.String()
	return execs, text[max(0, len(text)-8<<10):]
}
