package main

import (
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// tally counts tests and prints their progress.
type tally struct {
	out     io.Writer
	prefix  string          // import path prefix to omit in output
	running map[string]*pkg // by import path
	ended   []*pkg
	passed  int
	failed  []failure
	tests   []timing // passed tests, without subtests
	skipped []skip
	// unsteady are tests that failed and then passed alone; see again.
	unsteady []string
}

// pkg is a package under test.
type pkg struct {
	path    string
	name    string // the path without the prefix
	seconds float64
	output  []string // output not from a test
	tests   map[string]*test
	order   []string // test names by start order
	failed  bool     // a test failed
	untried bool     // there are no test files
}

// timing is the duration of a test or package.
type timing struct {
	what    string
	seconds float64
}

// skip is a skipped test with its reason.
type skip struct{ what, reason string }

// test is a test that has started.
type test struct {
	output []string
	ended  bool
	shown  bool
}

func newTally(out io.Writer, prefix string) *tally {
	return &tally{out: out, prefix: prefix, running: map[string]*pkg{}}
}

// add adds another tally's counts.
func (t *tally) add(o *tally) {
	t.ended = append(t.ended, o.ended...)
	t.passed += o.passed
	t.tests = append(t.tests, o.tests...)
	t.failed = append(t.failed, o.failed...)
	t.skipped = append(t.skipped, o.skipped...)
	t.unsteady = append(t.unsteady, o.unsteady...)
}

// failures returns the number of failed tests plus the number of packages that failed without a failed
// test.
func (t *tally) failures() int { return len(t.failed) }

// broken records a failure other than a failed test.
func (t *tally) broken(what string) { t.failed = append(t.failed, failure{what: what}) }

func (t *tally) print(text string) { _, _ = io.WriteString(t.out, text) }

// take processes one event.
func (t *tally) take(e event) {
	switch {
	case e.Action == "build-output":
		t.print(e.Output)
	case e.Package == "":
	case e.Test == "":
		t.takePackage(e)
	default:
		t.takeTest(e)
	}
}

func (t *tally) of(path string) *pkg {
	p := t.running[path]
	if p == nil {
		p = &pkg{path: path, name: strings.TrimPrefix(path, t.prefix), tests: map[string]*test{}}
		t.running[path] = p
	}
	return p
}

func (t *tally) takeTest(e event) {
	p := t.of(e.Package)
	one := p.tests[e.Test]
	if one == nil {
		one = &test{}
		p.tests[e.Test] = one
		p.order = append(p.order, e.Test)
	}
	switch e.Action {
	case "output":
		one.output = append(one.output, e.Output)
	case "pass":
		one.ended = true
		t.passed++
		if !strings.Contains(e.Test, "/") {
			t.tests = append(t.tests, timing{p.name + " " + e.Test, e.Elapsed})
		}
	case "skip":
		one.ended = true
		t.skipped = append(t.skipped, skip{p.name + " " + e.Test, reason(one.output)})
	case "fail":
		one.ended, p.failed = true, true
		f := failure{what: p.name + " " + e.Test, test: e.Test}
		if said := strings.Join(one.output, ""); !raced.MatchString(said) && !crashed.MatchString(said) {
			f.path = p.path
		}
		t.failed = append(t.failed, f)
		t.show(one)
	}
}

// noise matches lines in the verbose output that only show progress.
var noise = regexp.MustCompile(`^=== (RUN|PAUSE|CONT|NAME)\b`)

// show prints a test's output once.
func (t *tally) show(one *test) {
	if one.shown {
		return
	}
	one.shown = true
	t.print(strings.Join(slices.DeleteFunc(slices.Clone(one.output), noise.MatchString), ""))
}

// lines is an [io.Writer] that is safe for concurrent use.
type lines struct {
	mu sync.Mutex
	to io.Writer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(p)
}

// logged matches a line logged by a test.
var logged = regexp.MustCompile(`^\s+\S+\.go:\d+: (.*)$`)

// reason returns the last message logged by a test, including continuation lines.
func reason(output []string) string {
	var said []string
	for line := range strings.Lines(strings.Join(output, "")) {
		line = strings.TrimRight(line, "\n")
		if m := logged.FindStringSubmatch(line); m != nil {
			said = []string{m[1]}
		} else if len(said) > 0 && strings.HasPrefix(line, "        ") {
			said = append(said, strings.TrimSpace(line))
		}
	}
	if len(said) == 0 {
		return "no reason given"
	}
	return strings.Join(said, " ")
}

func (t *tally) takePackage(e event) {
	p := t.of(e.Package)
	switch e.Action {
	case "output":
		p.output = append(p.output, e.Output)
	case "pass", "skip", "fail":
		p.seconds, p.untried = e.Elapsed, e.Action == "skip"
		t.close(p, e)
	}
}

// close prints the remaining output of a finished package.
func (t *tally) close(p *pkg, e event) {
	delete(t.running, p.path)
	t.ended = append(t.ended, p)
	if e.Action != "fail" {
		for _, line := range p.output {
			if strings.HasPrefix(line, "ok ") {
				t.print(line)
			}
		}
		return
	}
	for _, name := range p.order {
		if one := p.tests[name]; !one.ended {
			p.failed = true
			t.broken(p.name + " " + name + " (did not finish)")
			t.show(one)
		}
	}
	for _, name := range p.order {
		// A race is reported in the output of whichever test happens to be running.
		one := p.tests[name]
		if !p.failed || slices.ContainsFunc(one.output, func(line string) bool { return strings.Contains(line, "DATA RACE") }) {
			t.show(one)
		}
	}
	for _, line := range p.output {
		t.print(line)
	}
	switch {
	case p.failed:
	case e.FailedBuild != "":
		t.broken(p.name + " (did not build)")
	default:
		t.broken(p.name + " (none of its tests failed)")
	}
}

// end closes packages that go test did not finish, for example because it was killed.
func (t *tally) end() {
	for path, p := range t.running {
		t.close(p, event{Action: "fail", Package: path})
	}
}
