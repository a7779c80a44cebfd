// Command table runs package conformance against every stack in the repository and prints
// results/conformance.md. Run it in its module's directory.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/millrace-dev/millrace/test/conformance"
)

// column is a stack and the test that runs the cases against it.
type column struct {
	title  string
	dir    string // of the module
	pkg    string
	test   string
	module string // module whose version identifies the stack; empty for Millrace itself

	results map[string]conformance.Result // keyed by law and case
}

func columns() []*column {
	return []*column{
		{title: "Millrace", dir: "test/conformance", pkg: ".", test: "TestConformance"},
		{title: "Millrace behind client-go", dir: "adapters/clientgo", pkg: ".", test: "TestConformance"},
		{title: "Millrace behind client-go, over a clientset", dir: "adapters/clientgo", pkg: ".", test: "TestConformanceOverAClientset"},
		{title: "Millrace behind controller-runtime", dir: "adapters/controllerruntime", pkg: ".", test: "TestConformance"},
		{title: "client-go", dir: "adapters/clientgo", pkg: ".", test: "TestConformanceOfClientGo", module: "k8s.io/client-go"},
		{title: "controller-runtime", dir: "adapters/controllerruntime", pkg: ".", test: "TestConformanceOfControllerRuntime", module: "sigs.k8s.io/controller-runtime"},
	}
}

func main() {
	if err := os.Chdir(filepath.Join("..", "..")); err != nil {
		fmt.Fprintf(os.Stderr, "table: %v\n", err)
		os.Exit(1)
	}
	all := columns()
	for _, c := range all {
		if err := c.play(); err != nil {
			fmt.Fprintf(os.Stderr, "table: %s: %v\n", c.title, err)
			os.Exit(1)
		}
	}
	commit, err := revision()
	if err != nil {
		fmt.Fprintf(os.Stderr, "table: the revision: %v\n", err)
		os.Exit(1)
	}
	write(os.Stdout, all, commit)
}

// revision returns the current commit, followed by a plus sign if there are uncommitted changes.
func revision() (string, error) {
	commit, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "", err
	}
	changes, err := exec.Command("git", "status", "--porcelain", "--untracked-files=no").Output()
	if len(changes) > 0 {
		return string(bytes.TrimSpace(commit)) + "+", err
	}
	return string(bytes.TrimSpace(commit)), err
}

// event is a line of go test -json.
type event struct {
	Action, Test, Key, Value, Output string
}

// play runs c's test and collects the results.
func (c *column) play() error {
	if c.module != "" {
		list := exec.Command("go", "list", "-m", "-f", "{{.Version}}", c.module)
		list.Dir = c.dir
		version, err := list.Output()
		if err != nil {
			return fmt.Errorf("version of %s: %w", c.module, err)
		}
		c.title += " " + strings.TrimSpace(string(version))
	}
	var errs bytes.Buffer
	run := exec.Command("go", "test", "-json", "-count=1", "-run", "^"+c.test+"$", c.pkg)
	run.Dir, run.Stderr = c.dir, &errs
	out, err := run.StdoutPipe()
	if err != nil {
		return err
	}
	if err := run.Start(); err != nil {
		return err
	}
	c.results = map[string]conformance.Result{}
	var log strings.Builder
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("go test printed a line that is not JSON: %q", lines.Text())
		}
		log.WriteString(e.Output)
		if e.Action != "attr" || e.Key != "conformance" {
			continue
		}
		var r conformance.Result
		if err := json.Unmarshal([]byte(e.Value), &r); err != nil {
			return fmt.Errorf("the result of %s: %w", e.Test, err)
		}
		c.results[r.Law+"/"+r.Case] = r
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if err := run.Wait(); err != nil {
		return fmt.Errorf("go test: %w\n%s%s", err, log.String(), errs.String())
	}
	return nil
}

// write renders the page.
func write(w io.Writer, all []*column, revision string) {
	fmt.Fprintf(w, `# Conformance

What informers and work queues of six stacks do with the same %d cases, played against the same
simulated API server. A case is one sentence of [the laws](../LAWS.md), many of which
client-go's documentation promises too; [package conformance](../test/conformance/doc.go) says how
they are played. This page was made by

    make conformance

with %s on %s, at revision %s.

`, len(conformance.Cases()), runtime.Version(), time.Now().UTC().Format(time.DateOnly), revision)
	table(w, all)
	fmt.Fprint(w, `
Each cell has how many cases were kept, of those that could be played. A case cannot be played
where a stack does not offer what it is about, such as a wait for a resource version. Who puts
Millrace behind client-go keeps client-go's work queue.

## What breaks

Each break below was seen in this run, and its test fails on the day on which it is gone. Where
it depends on chance the case was played until it broke, and may go unseen in another run. That a
sentence is broken does not mean that it was promised: at the end of each stands the line of the
stack's documentation that says what to expect, or that there is none.

`)
	for _, c := range all {
		stories(w, c, conformance.Broken)
	}
	fmt.Fprint(w, `## What cannot be played

Where nothing is said here, a stack has nothing that the case is about.

`)
	for _, c := range all {
		stories(w, c, conformance.NotOffered)
	}
	fmt.Fprint(w, `## Run one yourself

    go test -v -run 'TestConformance/L03' ./conformance
    go -C adapters/clientgo test -v -run 'TestConformanceOfClientGo/L04/a_recreated_object_is_another_one' .
    go -C adapters/controllerruntime test -v -run 'TestConformanceOfControllerRuntime/L20' .

To play the cases against a stack of your own, implement conformance.Stack: its example is
[some hundred lines](../test/conformance/millrace_test.go).

## The cases

`)
	for _, c := range conformance.Cases() {
		source := ""
		if c.Source != "" {
			source = fmt.Sprintf(" ([client-go](%s))", c.Source)
		}
		fmt.Fprintf(w, "- **%s** %s%s\n", c.Law, c.Name, source)
	}
}

func table(w io.Writer, all []*column) {
	fmt.Fprint(w, "| Law |")
	for _, c := range all {
		fmt.Fprintf(w, " %s |", c.title)
	}
	fmt.Fprint(w, "\n|---|")
	for range all {
		fmt.Fprint(w, "---|")
	}
	fmt.Fprintln(w)
	var laws []string
	for _, c := range conformance.Cases() {
		if len(laws) == 0 || laws[len(laws)-1] != c.Law {
			laws = append(laws, c.Law)
		}
	}
	totals := make([]tally, len(all))
	for _, law := range laws {
		fmt.Fprintf(w, "| %s |", law)
		for n, c := range all {
			t := c.tally(law)
			totals[n].kept += t.kept
			totals[n].played += t.played
			fmt.Fprintf(w, " %s |", t)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprint(w, "| all |")
	for _, t := range totals {
		fmt.Fprintf(w, " %s |", t)
	}
	fmt.Fprintln(w)
}

// tally counts the cases for one law by verdict.
type tally struct{ kept, played int }

func (t tally) String() string {
	switch {
	case t.played == 0:
		return "not offered"
	case t.kept < t.played:
		return fmt.Sprintf("**%d of %d**", t.kept, t.played)
	}
	return fmt.Sprintf("%d of %d", t.kept, t.played)
}

func (c *column) tally(law string) (t tally) {
	for _, r := range c.results {
		switch {
		case r.Law != law || r.Verdict == conformance.NotOffered:
			continue
		case r.Verdict == conformance.Kept:
			t.kept++
		}
		t.played++
	}
	return t
}

// stories prints the known breaks for c's cases with the given verdict.
func stories(w io.Writer, c *column, verdict conformance.Verdict) {
	first := true
	for _, k := range conformance.Cases() {
		r := c.results[k.String()]
		if r.Verdict != verdict || r.Known == nil {
			continue
		}
		if first {
			fmt.Fprintf(w, "### %s\n\n", c.title)
			first = false
		}
		chance := ""
		if r.Known.Sometimes {
			chance = " By chance."
		}
		fmt.Fprintf(w, "- **%s** %s. %s%s %s\n", r.Law, r.Case, r.Known.Story, chance, said(k, r.Known))
	}
	if !first {
		fmt.Fprintln(w)
	}
}

// said returns a link to the documentation of a known break.
func said(c conformance.Case, known *conformance.Known) string {
	where := cmp.Or(known.Says, c.Source)
	if where == "" {
		return "Never promised: its documentation says nothing of it."
	}
	return fmt.Sprintf("[Its documentation](%s)", where)
}
