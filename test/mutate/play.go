package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// options configure how breakages are tried.
type options struct {
	root      string // of the module
	schedules int
	from      uint64
	timeout   time.Duration
}

// result is the outcome of trying a breakage.
type result struct {
	patch     *patch
	found     bool
	after     int    // number of schedules run; 0 if unknown
	complaint string // the laws cited in the failure, or another symptom
	err       error  // why the breakage could not be tried
}

func (r *result) verdict() string {
	switch {
	case r.err != nil:
		return "not played"
	case !r.found:
		return "survived"
	case r.patch.test.name != "":
		return r.patch.test.name + " of " + r.patch.test.pack
	case r.after == 0:
		return "schedules" + r.patch.schedules.of()
	case r.after == 1:
		return "1 schedule" + r.patch.schedules.of()
	}
	return strconv.Itoa(r.after) + " schedules" + r.patch.schedules.of()
}

// of says where the schedules come from. It returns "" for the simulation's.
func (u unit) of() string {
	if u == simulation {
		return ""
	}
	return fmt.Sprintf(" of `%s` of %s", u.name, strings.TrimPrefix(u.pack, "./"))
}

// moduleRoot returns the directory that contains go.mod.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// workbench holds the built tests.
type workbench struct {
	options
	dir    string
	boards map[string]*built // by package
}

// built is a test binary with all of a board's breakages.
type built struct {
	*board
	binary string
}

// newWorkbench builds the schedule tests with all selectable breakages.
func newWorkbench(ctx context.Context, o options, dir string, some []*patch) (*workbench, error) {
	w := &workbench{options: o, dir: dir, boards: map[string]*built{}}
	for _, p := range some {
		if p.test.name != "" {
			continue
		}
		b := w.boards[p.schedules.pack]
		if b == nil {
			b = &built{newBoard(o.root), filepath.Join(dir, fmt.Sprint("board-", len(w.boards), ".test"))}
			w.boards[p.schedules.pack] = b
		}
		if _, err := b.add(p); err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
	}
	for pack, b := range w.boards {
		if err := w.build(ctx, b.overlay(), pack, b.binary); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// sound runs the specified tests and one schedule of each other kind, without breakages. A test that fails
// here would "find" every breakage.
func (w *workbench) sound(ctx context.Context, some []*patch) error {
	tests, schedules := map[string][]string{}, map[unit]bool{}
	for _, p := range some {
		if p.test.name != "" {
			tests[p.test.pack] = append(tests[p.test.pack], p.test.name)
		} else {
			schedules[p.schedules] = true
		}
	}
	for pack, names := range tests {
		binary := filepath.Join(w.dir, "sound.test")
		if err := w.build(ctx, nil, pack, binary); err != nil {
			return fmt.Errorf("without breakages, the tests of %s: %w", pack, err)
		}
		limited, cancel := context.WithTimeout(ctx, w.timeout)
		out, err := w.run(limited, binary, pack, nil, "-test.run=^("+strings.Join(names, "|")+")$")
		cancel()
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("without breakages, the tests of %s specified by patches fail too (%w): fix them first:\n%s", pack, err, out)
		}
	}
	for of := range schedules {
		limited, cancel := context.WithTimeout(ctx, w.timeout)
		out, err := w.schedules(limited, w.boards[of.pack].binary, of, 0, 1)
		cancel()
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("without breakages, %s of %s fails too (%w): fix it first:\n%s", of.name, of.pack, err, out)
		}
	}
	return nil
}

// unbroken runs as many schedules as it took to find a breakage, but without breakages. A schedule that fails
// here would have failed with every breakage.
func (w *workbench) unbroken(ctx context.Context, results []result) error {
	longest := map[unit]int{}
	for _, r := range results {
		if r.patch.test.name == "" {
			longest[r.patch.schedules] = max(longest[r.patch.schedules], r.after)
		}
	}
	for of, some := range longest {
		if some == 0 { // sound has already run one
			continue
		}
		if out, err := w.schedules(ctx, w.boards[of.pack].binary, of, 0, some); err != nil && ctx.Err() == nil {
			return fmt.Errorf("without breakages, schedule %d%s fails too: %s", seedIn(out, w.from), of.of(), complaintIn(out))
		}
	}
	return nil
}

// play tries one breakage.
func (w *workbench) play(ctx context.Context, p *patch) (r result) {
	r.patch = p
	number, binary := 0, ""
	if b := w.boards[p.schedules.pack]; b != nil && p.test.name == "" {
		number, binary = b.numbers[p], b.binary
	}
	if number == 0 {
		binary = filepath.Join(w.dir, p.name+".test")
		defer os.Remove(binary)
		if r.err = w.alone(ctx, p, binary); r.err != nil {
			return r
		}
	}
	limited, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	var out []byte
	var err error
	if p.test.name != "" {
		// Repeat the test, because a race only shows up by chance.
		out, err = w.run(limited, binary, p.test.pack, nil, "-test.run=^"+p.test.name+"$", "-test.count=20", "-test.failfast")
	} else {
		out, err = w.schedules(limited, binary, p.schedules, number, w.options.schedules)
	}
	if err != nil {
		r.found, r.after, r.complaint = true, seedIn(out, w.from), complaintIn(out)
		if limited.Err() != nil {
			r.complaint = "takes longer than " + w.timeout.String()
		}
	} else if bytes.Contains(out, []byte("no tests to run")) {
		r.err = fmt.Errorf("%s has no test %s", p.test.pack, p.test.name)
	}
	return r // meaningless if ctx is done
}

// schedules runs schedules with one breakage selected. On one CPU each schedule is deterministic.
func (w *workbench) schedules(ctx context.Context, binary string, of unit, number, some int) ([]byte, error) {
	args := []string{"-test.run=^" + of.name + "$", fmt.Sprint("-schedules=", some)}
	if of == simulation {
		args = append(args, "-hang=30s", fmt.Sprint("-from=", w.from))
	} else { // each is a separate test
		args = append(args, "-test.v", "-test.failfast")
	}
	return w.run(ctx, binary, of.pack, []string{"GOMAXPROCS=1", fmt.Sprint("MUTATE=", number)}, args...)
}

func (w *workbench) run(ctx context.Context, binary, pack string, env []string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Dir = filepath.Join(w.root, pack)
	cmd.Env = append(append(os.Environ(), "GOGC=400"), env...)
	cmd.WaitDelay = time.Second
	return cmd.CombinedOutput()
}

// alone builds the tests with a single breakage.
func (w *workbench) alone(ctx context.Context, p *patch, binary string) error {
	pack := p.schedules.pack
	if p.test.name != "" {
		pack = p.test.pack
	}
	texts := map[string]string{}
	for _, f := range p.files {
		text, err := os.ReadFile(filepath.Join(w.root, f.path))
		if err != nil {
			return err
		}
		if texts[f.path], err = f.apply(string(text)); err != nil {
			return err
		}
	}
	return w.build(ctx, texts, pack, binary)
}

// build builds a package's test binary with some files replaced. To save time it omits vet, inlining and
// symbols.
func (w *workbench) build(ctx context.Context, texts map[string]string, pack, binary string) error {
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for path, text := range texts {
		copied := fmt.Sprint(binary, ".", len(overlay.Replace), ".go")
		if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
			return err
		}
		overlay.Replace[filepath.Join(w.root, path)] = copied
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		return err
	}
	file := binary + ".json"
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-gcflags=github.com/millrace-dev/millrace/...=-l -dwarf=false", "-ldflags=-s -w", "-overlay", file, "-o", binary, ".")
	cmd.Dir = filepath.Join(w.root, pack) // may be a separate module
	if out, err := cmd.CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("build: %w", err), errors.New(string(bytes.TrimSpace(out))))
	}
	return nil
}

var (
	seedLine = regexp.MustCompile(`\bseed (\d+)\b`)
	seedTest = regexp.MustCompile(`(?m)^=== RUN .*/seed_\d+$`)
	lawName  = regexp.MustCompile(`\b[LWCS]\d\d: `)
)

// seedIn returns the number of schedules that had started when the output ended, or 0 if unknown.
func seedIn(out []byte, from uint64) int {
	if tests := len(seedTest.FindAll(out, -1)); tests > 0 {
		return tests
	}
	all := seedLine.FindAllSubmatch(out, -1)
	if all == nil {
		return 0
	}
	seed, err := strconv.ParseUint(string(all[len(all)-1][1]), 10, 63)
	if err != nil || seed < from {
		return 0
	}
	return int(seed-from) + 1
}

// complaintIn returns the laws cited by the tests, or another symptom.
func complaintIn(out []byte) string {
	var laws []string
	for _, law := range lawName.FindAll(out, -1) {
		if name := string(law[:3]); !slices.Contains(laws, name) {
			laws = append(laws, name)
		}
	}
	switch {
	case len(laws) > 0:
		return strings.Join(laws[:min(3, len(laws))], " ")
	case bytes.Contains(out, []byte("deadlock")):
		return "deadlock"
	case bytes.Contains(out, []byte("does not end")), bytes.Contains(out, []byte("test timed out")):
		return "hangs"
	case bytes.Contains(out, []byte("panic:")), bytes.Contains(out, []byte("fatal error:")):
		return "panic"
	}
	return "fails"
}
