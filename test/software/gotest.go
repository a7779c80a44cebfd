package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// outcomes maps test names to results: "passed", "failed" or "skipped".
type outcomes map[string]string

// goTest runs a suite in a copy of its module. For packages that use Ginkgo, it counts the specs in the
// Ginkgo report.
func goTest(ctx context.Context, dir string, s *suite, skip string, env []string, log string) (outcomes, error) {
	all := outcomes{}
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	for _, p := range s.packages {
		specs, err := ginkgoTests(filepath.Join(dir, p))
		if err != nil {
			return nil, err
		}
		var flags []string
		if s.run != "" {
			flags = append(flags, "-test.run="+s.run)
		}
		if skip != "" {
			flags = append(flags, "-test.skip="+skip)
		}
		report := filepath.Join(dir, "ginkgo-report.json")
		if len(specs) > 0 {
			os.Remove(report)
			flags = append(flags, "-ginkgo.json-report="+report)
		}
		cmd := exec.CommandContext(ctx, "go", append(s.running(dir, p), flags...)...)
		cmd.Dir, cmd.Env, cmd.Stderr = dir, env, out
		if s.once {
			cmd.Dir = filepath.Join(dir, p)
		}
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.WaitDelay = time.Minute
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		readErr := all.read(io.TeeReader(stdout, out), p)
		err = cmd.Wait()
		if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() != 1) {
			return nil, fmt.Errorf("%s: %w", cmd, err)
		}
		if readErr != nil {
			return nil, readErr
		}
		if len(specs) > 0 {
			for _, name := range specs {
				delete(all, p+" "+name) // its specs are counted instead
			}
			if err := all.readSpecs(report, p); err != nil {
				return nil, fmt.Errorf("%s: no Ginkgo report, so the specs did not run to completion; see %s: %w", p, log, err)
			}
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no test ran; see %s", log)
	}
	return all, nil
}

// running returns the go command's arguments for running a package's tests. Arguments for the test program
// may be appended.
func (s *suite) running(dir, pkg string) []string {
	if s.once {
		return []string{"tool", "test2json", "-t", s.program(dir, pkg), "-test.v=test2json", "-test.paniconexit0", "-test.timeout=" + patience}
	}
	return []string{"test", "-mod=mod", "-trimpath=false", "-json", "-count=1", "-vet=off", "-timeout=" + patience, pkg, "-args"}
}

// program returns the path of a package's compiled tests.
func (s *suite) program(dir, pkg string) string {
	return filepath.Join(dir, pkg, "millrace_choice.test")
}

// compile builds the test programs for a suite that is compiled once. Some suites locate their files by
// source path, so the binary must contain that path.
func (s *suite) compile(ctx context.Context, dir string, env []string) error {
	for _, p := range s.packages {
		cmd := exec.CommandContext(ctx, "go", "test", "-c", "-mod=mod", "-trimpath=false", "-vet=off", "-ldflags=-s -w", "-o", s.program(dir, p), p)
		cmd.Dir, cmd.Env, cmd.Stderr = dir, env, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", cmd, err)
		}
	}
	return nil
}

// read reads the output of go test -json for a package. A test that did not finish is reported as failed. A
// package also fails if its process fails without a failing test, for example because tests left something
// running.
func (o outcomes) read(in io.Reader, pkg string) error {
	words := map[string]string{"run": "failed", "pass": "passed", "fail": "failed", "skip": "skipped"}
	names := map[string]string{} // by original name
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		var e struct{ Action, Test, FailedBuild string }
		if json.Unmarshal(line, &e) == nil {
			if word, ok := words[e.Action]; ok && e.Test != "" {
				if names[e.Test] == "" {
					names[e.Test] = o.free(pkg + " " + fromTheClock.ReplaceAllString(e.Test, "TIME"))
				}
				o[names[e.Test]] = word
			} else if e.FailedBuild != "" {
				o[pkg+" (build)"] = "failed"
			} else if e.Action == "fail" && !o.failed(pkg) {
				o[pkg+" (process)"] = "failed"
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// fromTheClock matches a number in a test name that looks like a Unix time, and usually is a seed.
var fromTheClock = regexp.MustCompile(`\d{10,}`)

// free returns base if that name is unused, and otherwise base with the first number that makes it unique.
func (o outcomes) free(base string) string {
	name := base
	for n := 2; o[name] != ""; n++ {
		name = fmt.Sprintf("%s (%d)", base, n)
	}
	return name
}

// failed reports whether any test in a package has failed.
func (o outcomes) failed(pkg string) bool {
	for name, word := range o {
		if word == "failed" && strings.HasPrefix(name, pkg+" ") {
			return true
		}
	}
	return false
}

// readSpecs reads Ginkgo's report.
func (o outcomes) readSpecs(file, pkg string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var reports []struct {
		SpecReports []struct {
			ContainerHierarchyTexts []string
			LeafNodeType            string
			LeafNodeText            string
			State                   string
		}
	}
	if err := json.Unmarshal(text, &reports); err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	for _, r := range reports {
		for _, spec := range r.SpecReports {
			state := "failed"
			switch spec.State {
			case "passed":
				state = "passed"
			case "skipped", "pending":
				state = "skipped"
			}
			if spec.LeafNodeType != "It" && state == "passed" {
				continue
			}
			name := strings.Join(append([]string{pkg}, append(spec.ContainerHierarchyTexts, spec.LeafNodeText)...), " ")
			o[o.free(name)] = state // table entries may have the same text
		}
	}
	return nil
}

// runSpecs matches a test that runs all specs of its package.
var runSpecs = regexp.MustCompile(`func (Test\w+)\([^)]*\) \{[^}]*\bRunSpecs\(`)

// ginkgoTests returns the tests that run a package's specs, if there are any.
func ginkgoTests(dir string) (names []string, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, match := range runSpecs.FindAllSubmatch(text, -1) {
			names = append(names, string(match[1]))
		}
	}
	return names, nil
}
