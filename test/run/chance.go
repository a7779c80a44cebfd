package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// secondChance is the environment variable that gives tests a second chance.
const secondChance = "MILLRACE_SECOND_CHANCE"

// most is how many tests of one job may have a second chance. More do not fail by
// chance.
const most = 4

// failure is something that failed.
type failure struct {
	what string // in words
	path string // the import path of its package; empty where it has no second chance
	test string // with the tests around it: TestX/part
}

// whole is the test that go test can run alone.
func (f failure) whole() string {
	name, _, _ := strings.Cut(f.test, "/")
	return name
}

// again runs the tests of a job that failed, alone and three times. Those that pass
// each time are no failures any more: they are unsteady. It does so only where each of
// the failures is one of a test that ran to its end without a race; whatever else
// happened, such as a panic, may have kept other tests from being run.
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
			t.print("\nonce more, alone: " + alone.String() + "\n")
			second := newTally(t.out, t.prefix)
			second.goTest(ctx, alone)
			if second.failures() > 0 || second.passed == 0 {
				continue
			}
			t.failed = slices.DeleteFunc(t.failed, func(f failure) bool { return f.path == path && f.whole() == name })
			t.unsteady = append(t.unsteady, fmt.Sprintf("%s %s: failed, and then passed three times alone", strings.TrimPrefix(path, t.prefix), name))
		}
	}
}

// raced and crashed are what a test says whose failure is no matter of chance.
var (
	raced   = regexp.MustCompile(`DATA RACE|race detected during execution`)
	crashed = regexp.MustCompile(`(?m)^(panic|fatal error|SIG[A-Z]+): `)
)
