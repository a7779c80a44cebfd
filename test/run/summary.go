package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// told is how many of the slowest packages and tests to list.
const told = 10

// summary prints the tests that ran, the tests that were skipped and why, and the tests that failed. The
// last line contains the counts.
func (t *tally) summary(took time.Duration, without, later []string) {
	var tested, untried []*pkg
	for _, p := range t.ended {
		if p.untried {
			untried = append(untried, p)
		} else {
			tested = append(tested, p)
		}
	}
	t.print(fmt.Sprintf("\nran %d packages in %s; %d have no test files\n", len(tested), took.Round(time.Second), len(untried)))
	var packages []timing
	for _, p := range tested {
		packages = append(packages, timing{p.name, p.seconds})
	}
	t.slowest("packages", packages)
	t.slowest("tests", t.tests)
	if len(without) > 0 {
		t.print("modules without tests: " + strings.Join(without, ", ") + "\n")
	}
	if len(later) > 0 {
		t.print("make test-all adds: " + strings.Join(later, ", ") + "\n")
	}
	skipped := t.onlySkipped()
	t.list("skipped", skipped)
	t.list("unsteady, to be fixed", t.unsteady)
	var failed []string
	for _, f := range t.failed {
		failed = append(failed, f.what)
	}
	t.list("failed", failed)
	t.print(fmt.Sprintf("\n%d passed, %d failed, %d skipped\n", t.passed, len(t.failed), len(skipped)))
}

// onlySkipped returns the skipped tests with their reasons, except tests skipped only with the race
// detector.
func (t *tally) onlySkipped() []string {
	passed := map[string]bool{}
	for _, one := range t.tests {
		passed[one.what] = true
	}
	var all []string
	for _, s := range t.skipped {
		if !passed[s.what] {
			all = append(all, s.what+": "+s.reason)
		}
	}
	return all
}

// slowest prints the slowest packages or tests.
func (t *tally) slowest(what string, all []timing) {
	slices.SortStableFunc(all, func(a, b timing) int { return cmp.Compare(b.seconds, a.seconds) })
	var times []string
	for _, one := range all[:min(told, len(all))] {
		times = append(times, fmt.Sprintf("%s %.0fs", one.what, one.seconds))
	}
	if len(times) > 0 {
		t.print("slowest " + what + ": " + strings.Join(times, ", ") + "\n")
	}
}

func (t *tally) list(title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	t.print("\n" + title + ":\n")
	for _, line := range lines {
		t.print("  " + line + "\n")
	}
}
