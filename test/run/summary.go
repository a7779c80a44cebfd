package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// slowest is how many packages are named with their time.
const slowest = 5

// summary prints what ran, what was skipped and why, and what failed. The last
// line is the count.
func (t *tally) summary(took time.Duration, without []string) {
	var tested, untried []*pkg
	for _, p := range t.ended {
		if p.untried {
			untried = append(untried, p)
		} else {
			tested = append(tested, p)
		}
	}
	slices.SortStableFunc(tested, func(a, b *pkg) int { return cmp.Compare(b.seconds, a.seconds) })
	t.print(fmt.Sprintf("\nran %d packages in %s; %d have no test files\n", len(tested), took.Round(time.Second), len(untried)))
	var times []string
	for _, p := range tested[:min(slowest, len(tested))] {
		times = append(times, fmt.Sprintf("%s %.0fs", p.name, p.seconds))
	}
	if len(times) > 0 {
		t.print("slowest: " + strings.Join(times, ", ") + "\n")
	}
	if len(without) > 0 {
		t.print("modules without tests: " + strings.Join(without, ", ") + "\n")
	}
	t.list("skipped", t.skipped)
	t.list("unsteady, to be mended", t.unsteady)
	var failed []string
	for _, f := range t.failed {
		failed = append(failed, f.what)
	}
	t.list("failed", failed)
	t.print(fmt.Sprintf("\n%d passed, %d failed, %d skipped\n", t.passed, len(t.failed), len(t.skipped)))
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
