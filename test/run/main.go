// Command run runs the tests of every module of the repository. At the end it lists the tests that ran,
// the tests that were skipped and why, and the tests that failed.
//
//	go run ./test/run [-later=MODULES] [flags of go test] [packages]
//
// With packages it runs in the module of the working directory. Without packages, it runs all packages
// of all modules that have tests. It finds these by their go.mod and _test.go files. It skips the
// modules in -later, separated by commas, and lists them at the end.
//
// If a package's test files have build constraints on the race detector, some of its tests would take
// too long with it. If -race is among the flags, such packages run twice: with the race detector and
// without.
//
// # While it runs
//
// The packages of the root module run first. Then everything else runs two at a time: the other modules,
// and the packages of the root module that run without the race detector. The output of a failing test
// is printed at once, and so is the line of a package when it ends. Output of passing tests is dropped,
// but if a package fails without a failed test, all its output is printed. Build failures and other
// output of go test are printed as they arrive.
//
// # Second chance
//
// If MILLRACE_SECOND_CHANCE=true is set, as in continuous integration, up to four failed tests of a
// module are rerun, alone and three times. A test that then always passes does not fail the run. The
// summary lists it as unsteady, and its first output is kept, because either the test or the code has a
// bug. There is no second chance after a data race, a panic, a test that did not end or a package that
// did not build.
//
// # Failure
//
// It exits with 1 if a test failed, a package did not build, or go test failed for any other reason; the
// last line then counts at least one failure.
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
	context.AfterFunc(ctx, stop) // the second signal kills
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
	jobs, without, err := plan(".", flags, packages, later)
	if err != nil {
		return false, err
	}
	t := newTally(&lines{to: os.Stdout}, modulePath(".")+"/")
	began := time.Now()
	first := min(1, len(jobs))
	t.runAll(ctx, jobs[:first], 1)
	t.runAll(ctx, jobs[first:], abreast)
	if ctx.Err() != nil {
		t.broken("interrupted")
	}
	t.summary(time.Since(began), without, later)
	return t.failures() > 0, nil
}

// abreast is the number of calls of go test at a time, after the root module. Most calls test one
// package, which leaves cores idle.
const abreast = 2

// runAll runs jobs, atATime of them concurrently, and counts their results.
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

// cutLater removes the flag -later and returns the modules in it.
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

// split separates the flags of go test from the packages after them. A flag with a value must use an equals
// sign.
func split(args []string) (flags, packages []string) {
	at := slices.IndexFunc(args, func(arg string) bool { return !strings.HasPrefix(arg, "-") })
	if at < 0 {
		return args, nil
	}
	return args[:at], args[at:]
}
