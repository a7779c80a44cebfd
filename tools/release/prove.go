package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// proof is a check of a whole release, too long to run for each commit.
type proof struct {
	name    string
	command string // for sh, in the repository's root; $VERSION is the release's version
	result  string // lines of the output that contain this text are the result
	page    string // the page below results that the command writes, if any
	without string // paths of code that it neither compiles nor runs, as Git's exclusions
}

// outerCode is imported neither by the library nor by the simulation; simulationCode runs only in the simulation and
// the breakages; testCode includes all tests and their files.
const (
	outerCode      = ":!adapters :!bench :!cmd :!envtest :!examples"
	simulationCode = ":!test/simulation :!test/mutate"
	testCode       = simulationCode + " :(exclude,glob)**/*_test.go :(exclude,glob)**/testdata/**"
)

// proofs lists a release's proofs, in the order in which they run.
var proofs = []proof{
	{"checks", "make check", "vulnerabilities:", "", ""},
	{"all tests", "make test-all", " passed, ", "", ""},
	{"simulation, seeds from 0", "make simulate RUNS=50000", "50000 schedules", "", outerCode},
	{"simulation, seeds from 50,000", "make simulate RUNS=50000 FROM=50000", "50000 schedules", "", outerCode},
	{"simulation, seeds from 100,000", "make simulate RUNS=50000 FROM=100000", "50000 schedules", "", outerCode},
	{"simulation, seeds from 150,000", "make simulate RUNS=50000 FROM=150000", "50000 schedules", "", outerCode},
	{"simulation, seeds from 200,000", "make simulate RUNS=50000 FROM=200000", "50000 schedules", "", outerCode},
	{"simulation of shared work", "make simulate-sharing RUNS=10000", "schedules passed", "", outerCode + " " + simulationCode},
	{"breakages", "go run ./test/mutate -table results/breakages.md", " found", "breakages.md", ""},
	{"torture", "make torture TIME=60m SEED=20261130", " episodes", "", simulationCode},
	{"fuzzing", "make fuzz FUZZTIME=1m", "| all |", "", simulationCode},
	{"conformance", "make conformance", "", "conformance.md", simulationCode},
	{"software: controller-runtime", "make software ONLY='^controller-runtime'", "", "software.md", testCode},
	{"software: client-go", "make software ONLY='^client-go'", "", "software.md", testCode},
	{"software: Kubernetes, A to E", "make software ONLY='^integration [a-e]'", "", "software.md", testCode},
	{"software: Kubernetes, F to R", "make software ONLY='^integration [f-r]'", "", "software.md", testCode},
	{"software: Kubernetes, S to Z", "make software ONLY='^integration [s-z]'", "", "software.md", testCode},
	{"software: cluster-api, providers", "make software ONLY='^cluster-api [bc]o[on]t'", "", "software.md", testCode},
	{"software: cluster-api, core", "make software ONLY='^cluster-api core'", "", "software.md", testCode},
	{"software: cluster-api, libraries", "make software ONLY='^cluster-api [iu]'", "", "software.md", testCode},
	{"software: cert-manager", "make software ONLY='^cert-manager'", "", "software.md", testCode},
	{"software: Kubernetes' controllers", "make software ONLY='^kubernetes'", "", "software.md", testCode},
	{"benchmarks", `make bench ARGS="$(test ! -f bench/out/results.json || echo --resume)"`, "", "benchmarks.md", testCode},
	{"rehearsal", "make release-rehearsal VERSION=$VERSION", "release: rehearsed", "", ""},
	{"artifacts", "make release-artifacts VERSION=$VERSION", ": built", "", ""},
}

// outcome is how a proof ended.
type outcome struct {
	Command  string
	Revision string
	Machine  string
	Began    time.Time
	Seconds  int
	Passed   bool
	Result   []string
}

// prove runs the proofs that have not passed with the code of HEAD, one after another, and writes all outcomes
// to results, as a page and in JSON. A failed proof does not stop the others.
func (r *release) prove(ctx context.Context, all []proof, only string) error {
	if err := r.sameCode(ctx, "HEAD", proof{}); err != nil {
		return err
	}
	file := filepath.Join(r.repo, "results", r.version+".json")
	known, err := readOutcomes(file)
	if err != nil {
		return err
	}
	for _, p := range all {
		switch last := known[p.name]; {
		case !strings.Contains(p.name, only):
			continue
		case last.Passed && r.sameCode(ctx, last.Revision, p) == nil:
			fmt.Fprintf(r.out, "release: %s: passed on %s\n", p.name, last.Began.Format(time.DateOnly))
			continue
		}
		o, err := r.attempt(ctx, p)
		if err != nil {
			return err
		}
		known[p.name] = o
		if err := r.record(ctx, file, all, known); err != nil {
			return err
		}
	}
	if err := r.record(ctx, file, all, known); err != nil { // even if none ran: the code may have changed
		return err
	}
	return r.unproven(ctx, all, known)
}

// unproven returns an error if a proof has not passed with the current code.
func (r *release) unproven(ctx context.Context, all []proof, known map[string]outcome) error {
	var missing []string
	for _, p := range all {
		if last := known[p.name]; !last.Passed || r.sameCode(ctx, last.Revision, p) != nil {
			missing = append(missing, p.name)
		}
	}
	if missing != nil {
		return fmt.Errorf("not proven: %s", strings.Join(missing, ", "))
	}
	return nil
}

// notProven are the paths of pages, package comments, results and the programs that write them. Everything else is
// the code of a release.
var notProven = []string{
	":!*.md", ":!docs", ":(exclude,glob)**/doc.go",
	":!results", ":!test/software/results", ":!bench/out",
	":!bench/report", ":!cmd/informer-bench/results", ":!tools/release",
}

// sameCode returns an error unless the working directory has the code of a revision that p runs.
func (r *release) sameCode(ctx context.Context, revision string, p proof) error {
	paths := slices.Concat(notProven, strings.Fields(p.without))
	changed, err := r.git(ctx, append([]string{"diff", "--name-only", revision, "--", "."}, paths...)...)
	if err == nil {
		var added []byte
		added, err = r.git(ctx, append([]string{"ls-files", "--others", "--exclude-standard", "--", "."}, paths...)...)
		changed = append(changed, added...)
	}
	if err == nil && len(changed) > 0 {
		err = fmt.Errorf("changed since %s: %s", revision, strings.Join(strings.Fields(string(changed)), ", "))
	}
	return err
}

// attempt runs a proof. It returns an error if ctx ends first.
func (r *release) attempt(ctx context.Context, p proof) (outcome, error) {
	revision, err := r.git(ctx, "rev-parse", "--short=12", "HEAD")
	if err != nil {
		return outcome{}, err
	}
	fmt.Fprintf(r.out, "release: %s: %s\n", p.name, p.command)
	o := outcome{
		Command: r.expand(p.command), Revision: strings.TrimSpace(string(revision)),
		Machine: machine(), Began: time.Now().UTC().Truncate(time.Second),
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", p.command)
	cmd.Dir, cmd.Env = r.repo, append(os.Environ(), "VERSION="+r.version)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.MultiWriter(r.out, &output), r.out
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	err = cmd.Run()
	o.Passed, o.Seconds = err == nil, int(time.Since(o.Began).Seconds())
	for line := range strings.Lines(output.String()) {
		if p.result != "" && strings.Contains(line, p.result) {
			line, _, _ = strings.Cut(line, `: Get "`) // the rest of a network error names this machine's resolver
			o.Result = append(o.Result, strings.TrimSpace(line))
		}
	}
	if err != nil {
		o.Result = append(o.Result, err.Error())
	}
	return o, ctx.Err()
}

// expand replaces $VERSION in a command.
func (r *release) expand(command string) string {
	return strings.ReplaceAll(command, "$VERSION", r.version)
}

// machine describes the machine on which the proofs run.
func machine() string {
	name := "unknown processor"
	info, _ := os.ReadFile("/proc/cpuinfo") // Linux only
	for line := range strings.Lines(string(info)) {
		if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == "model name" {
			name = strings.TrimSpace(value)
		}
	}
	return fmt.Sprintf("%s, %d cores, %s/%s, %s", name, runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
}

func readOutcomes(file string) (map[string]outcome, error) {
	known := map[string]outcome{}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return known, nil
	}
	if err != nil {
		return nil, err
	}
	return known, json.Unmarshal(text, &known)
}

// record writes the outcomes, and the page that shows them.
func (r *release) record(ctx context.Context, file string, all []proof, known map[string]outcome) error {
	text, err := json.MarshalIndent(known, "", "\t")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(strings.TrimSuffix(file, ".json")+".md", r.page(ctx, all, known), 0o644)
}

// page returns the page of all outcomes.
func (r *release) page(ctx context.Context, all []proof, known map[string]outcome) []byte {
	var b, machines bytes.Buffer
	fmt.Fprintf(&b, "# Proofs of %s\n\n`make release-proofs VERSION=%s` runs the proofs that have not passed with the current code, and writes this page.\n\n", r.version, r.version)
	b.WriteString("| proof | command | result | took | on | revision |\n|---|---|---|---|---|---|\n")
	for _, p := range all {
		o, ran := known[p.name]
		if !ran {
			fmt.Fprintf(&b, "| %s | `%s` | **has not run** | | | |\n", p.name, strings.ReplaceAll(r.expand(p.command), "|", `\|`))
			continue
		}
		result := strings.ReplaceAll(strings.Join(o.Result, "<br>"), "|", "")
		if p.page != "" {
			result = strings.TrimSpace(fmt.Sprintf("[%s](%s) %s", p.page, p.page, result))
		}
		if !o.Passed {
			result = "**failed**: " + result
		}
		if r.sameCode(ctx, o.Revision, p) != nil {
			o.Revision += " (the code has changed since)"
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s | %v | %s | %s |\n", p.name, strings.ReplaceAll(o.Command, "|", `\|`), result, time.Duration(o.Seconds)*time.Second, o.Began.Format(time.DateOnly), o.Revision)
		if line := "\n- " + o.Machine; !strings.Contains(machines.String(), line) {
			machines.WriteString(line)
		}
	}
	fmt.Fprintf(&b, "\nThe code that a proof runs has not changed since its revision unless the table says so.\n\nMachines:\n%s\n", &machines)
	return b.Bytes()
}
