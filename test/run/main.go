// Command run runs the tests of every module in the repository. At the end it lists the tests that ran, the
// tests that were skipped and why, and the tests that failed.
//
//	go run ./test/run [-later=MODULES] [go test flags] [packages]
//
// If packages are given, it tests them in the working directory's module. Otherwise it tests all packages of
// every module that has tests. It finds those by their go.mod and _test.go files. It skips the
// comma-separated modules in -later, and lists them at the end.
//
// If a package's test files have build constraints on the race detector, some of its tests would take too
// long with it. With -race and without -later, such packages run twice: with and without the race detector.
//
// # Output
//
// The root module's packages run first. Then everything else runs, two jobs at a time: the other modules,
// and the root module's packages that run without the race detector. The output of a failing test is
// printed immediately, and so is a package's result line when it finishes. The output of passing tests is
// dropped, but if a package fails without a failed test, all its output is printed. Build failures and
// other go test output are printed as they arrive.
//
// # Second chance
//
// If MILLRACE_SECOND_CHANCE=true is set, as in continuous integration, up to four failed tests per module are
// rerun alone, three times each. A test that then passes every time does not fail the run. The summary lists
// it as unsteady, and its first output is kept, since either the test or the code must have a bug. There is
// no second chance after a data race, a panic, a test that did not finish or a package that did not build.
//
// # Failure
//
// It exits with code 1 if a test failed, a package did not build, or go test failed for any other reason. In
// each case, the last line reports at least one failure.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal kills the process
	failed, err := run(ctx, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
	}
	if failed || err != nil {
		os.Exit(1)
	}
}

// run runs everything and prints the summary, even if interrupted.
func run(ctx context.Context, args []string) (failed bool, err error) {
	flags, packages := split(args)
	flags, later := cutLater(flags)
	s, err := plan(".", flags, packages, later)
	if err != nil {
		return false, err
	}
	t := newTally(&lines{to: os.Stdout}, modulePath(".")+"/")
	began := time.Now()
	first := min(1, len(s.jobs))
	t.runAll(ctx, s.jobs[:first], 1)
	t.runAll(ctx, s.jobs[first:], abreast)
	if ctx.Err() != nil {
		t.broken("interrupted")
	}
	t.summary(time.Since(began), s.without, s.later)
	return t.failures() > 0, nil
}

// abreast is the number of concurrent go test runs once the root module is done. Most of them test only one
// package, which leaves cores idle.
const abreast = 2

// runAll runs jobs, atATime of them concurrently, and tallies their results.
func (t *tally) runAll(ctx context.Context, jobs []job, atATime int) {
	var all sync.WaitGroup
	free := make(chan struct{}, atATime)
	counts := make([]*tally, len(jobs))
	for i, j := range jobs {
		counts[i] = newTally(t.out, t.prefix)
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			if ctx.Err() == nil {
				counts[i].runOne(ctx, j)
			}
		})
	}
	all.Wait()
	for _, one := range counts {
		t.add(one)
	}
}

func (t *tally) runOne(ctx context.Context, j job) {
	t.print("\n" + j.String() + "\n")
	t.goTest(ctx, j)
	if os.Getenv(secondChance) == "true" {
		t.again(ctx, j)
	}
}

// cutLater removes the -later flag and returns its modules.
func cutLater(flags []string) (others, later []string) {
	for _, f := range flags {
		if names, ok := strings.CutPrefix(f, "-later="); ok {
			later = append(later, strings.FieldsFunc(names, func(r rune) bool { return r == ',' })...)
		} else {
			others = append(others, f)
		}
	}
	return others, later
}

// split separates the go test flags from the packages that follow. A flag's value must be attached with an
// equals sign.
func split(args []string) (flags, packages []string) {
	at := slices.IndexFunc(args, func(arg string) bool { return !strings.HasPrefix(arg, "-") })
	if at < 0 {
		return args, nil
	}
	return args[:at], args[at:]
}
