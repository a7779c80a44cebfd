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

// schedules are the tests that play schedules from seeds.
const schedules = "./test/simulation"

// options are how breakages are played.
type options struct {
	root      string // of the module
	schedules int
	from      uint64
	timeout   time.Duration
}

// result is what came of a breakage.
type result struct {
	patch     *patch
	found     bool
	after     int    // schedules; 0 where the tests did not say
	complaint string // the laws that were named, or how else it showed
	err       error  // it could not be played
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
		return "schedules"
	case r.after == 1:
		return "1 schedule"
	}
	return strconv.Itoa(r.after) + " schedules"
}

// moduleRoot is where go.mod is.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// play builds the tests with a breakage and runs them.
func play(ctx context.Context, o options, p *patch) (r result) {
	r.patch = p
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		r.err = err
		return r
	}
	defer os.RemoveAll(dir)
	pack, args := schedules, []string{"-test.run=^TestSchedules$", fmt.Sprint("-schedules=", o.schedules), fmt.Sprint("-from=", o.from)}
	if p.test.name != "" {
		pack, args = p.test.pack, []string{"-test.run=^" + p.test.name + "$", "-test.count=1"}
	}
	binary := filepath.Join(dir, "tests")
	if r.err = build(ctx, o, p, pack, dir, binary); r.err != nil {
		return r
	}
	limited, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	cmd := exec.CommandContext(limited, binary, args...)
	cmd.Dir = filepath.Join(o.root, pack)
	cmd.Env = append(os.Environ(), "GOGC=400")
	if pack == schedules { // with one processor a schedule is the same each time
		cmd.Env = append(cmd.Env, "GOMAXPROCS=1")
	}
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.found, r.after, r.complaint = true, seedIn(out, o.from), complaintIn(out)
		if limited.Err() != nil {
			r.complaint = "takes longer than " + o.timeout.String()
		}
	} else if bytes.Contains(out, []byte("no tests to run")) {
		r.err = fmt.Errorf("%s has no test %s", pack, p.test.name)
	}
	return r // of no use where ctx is done
}

// build makes the test binary of a package, with the patched files in the place of the
// right ones. It spares what costs time and finds nothing: vet, inlining of all that is
// instantiated, and symbols.
func build(ctx context.Context, o options, p *patch, pack, dir, binary string) error {
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for n, f := range p.files {
		path := filepath.Join(o.root, f.path)
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		patched, err := f.apply(string(text))
		if err != nil {
			return err
		}
		copied := filepath.Join(dir, fmt.Sprint(n, ".go"))
		if err := os.WriteFile(copied, []byte(patched), 0o600); err != nil {
			return err
		}
		overlay.Replace[path] = copied
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-gcflags=github.com/millrace-dev/millrace/...=-l -dwarf=false", "-ldflags=-s -w", "-overlay", file, "-o", binary, pack)
	cmd.Dir = o.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("build: %w", err), errors.New(string(bytes.TrimSpace(out))))
	}
	return nil
}

var (
	seedLine = regexp.MustCompile(`\bseed (\d+)\b`)
	lawName  = regexp.MustCompile(`\b[LW]\d\d: `)
)

// seedIn is how many schedules had been begun when the output ended, 0 if it does not
// say.
func seedIn(out []byte, from uint64) int {
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

// complaintIn is what the tests said: the laws that they named first, or a word.
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
