package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// secondChance is the environment variable that enables second chances.
const secondChance = "MILLRACE_SECOND_CHANCE"

// most is the maximum number of tests per job that get a second chance. More failures cannot be a
// coincidence.
const most = 4

// failure is a failed test or package.
type failure struct {
	what string // as text
	path string // import path of its package; empty if there is no second chance
	test string // including its parents: TestX/part
}

// whole returns the top-level test, which go test can run alone.
func (f failure) whole() string {
	name, _, _ := strings.Cut(f.test, "/")
	return name
}

// again reruns each of a job's failed tests alone, three times. A test that then passes every time is
// reported as unsteady rather than failed. again does nothing unless every failure is a test that ran to
// completion without a race, because any other failure, such as a panic, may have prevented other tests from
// running.
func (t *tally) again(ctx context.Context, j job) {
	failed := t.failed
	var paths []string
	tests := map[string][]string{} // by path
	count := len(t.unsteady)
	for _, f := range failed {
		if f.path == "" {
			return
		}
		if !slices.Contains(paths, f.path) {
			paths = append(paths, f.path)
		}
		if !slices.Contains(tests[f.path], f.whole()) {
			tests[f.path] = append(tests[f.path], f.whole())
			count++
		}
	}
	if len(failed) == 0 || count > most || ctx.Err() != nil {
		return
	}
	for _, path := range paths {
		for _, name := range tests[path] {
			alone := job{dir: j.dir, flags: append(slices.Clone(j.flags), "-count=3", "-failfast", "-run=^"+regexp.QuoteMeta(name)+"$"), packages: []string{path}}
			t.print("\nrerun alone: " + alone.String() + "\n")
			second := newTally(t.out, t.prefix)
			second.goTest(ctx, alone)
			if second.failures() > 0 || second.passed == 0 {
				continue
			}
			t.failed = slices.DeleteFunc(t.failed, func(f failure) bool { return f.path == path && f.whole() == name })
			t.unsteady = append(t.unsteady, fmt.Sprintf("%s %s: failed, then passed three times alone", strings.TrimPrefix(path, t.prefix), name))
		}
	}
}

// raced and crashed match the output of failures that cannot be a coincidence.
var (
	raced   = regexp.MustCompile(`DATA RACE|race detected during execution`)
	crashed = regexp.MustCompile(`(?m)^(panic|fatal error|SIG[A-Z]+): `)
)
