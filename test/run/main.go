// Command run runs the tests of every module of the repository, and says at the
// end what ran, what was skipped and why, and what failed.
//
//	go run ./test/run [-later=MODULES] [flags of go test] [packages]
//
// With packages it stays in the module of the working directory. Without, it runs
// all packages of all modules that have tests, which it finds by their go.mod and
// _test.go files. It leaves out the modules that -later names, separated by commas,
// and lists them at the end.
//
// A package whose test files ask by a build constraint whether the race detector
// is on has something to do that would take too long with it. If -race is among
// the flags, such packages run twice: with the race detector and without.
//
// # While it runs
//
// The module at the top runs alone, the others two at a time. A test that fails prints its
// output at once, and a package that ends its line.
// What passing tests print is dropped, unless their package fails and no test of
// it did: then everything is printed. Build failures and whatever else go test
// says go through as they come.
//
// # Second chance
//
// Where the environment has MILLRACE_SECOND_CHANCE=true, as in continuous integration, up
// to four tests of a module that failed run once more, by themselves and three times. A test
// that then passes each time does not fail the run. The summary calls it unsteady, and what it
// printed the first time stays to be read: either the test or the code has a mistake. There
// is no second chance for a data race, a panic, a test that did not end or a package that
// did not build.
//
// # Failure
//
// It exits with 1 if a test failed, a package did not build, or go test failed for
// any other reason; the last line then counts at least one failure.
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

// run runs everything in turn and prints the summary, also of what was
// interrupted.
func run(ctx context.Context, args []string) (failed bool, err error) {
	flags, packages := split(args)
	flags, later := cutLater(flags)
	jobs, without, err := plan(".", flags, packages, later)
	if err != nil {
		return false, err
	}
	t := newTally(&lines{to: os.Stdout}, modulePath(".")+"/")
	began := time.Now()
	rest := slices.IndexFunc(jobs, func(j job) bool { return j.dir != jobs[0].dir })
	if rest < 0 {
		rest = len(jobs)
	}
	t.runAll(ctx, jobs[:rest], 1)
	t.runAll(ctx, jobs[rest:], abreast)
	if ctx.Err() != nil {
		t.broken("interrupted")
	}
	t.summary(time.Since(began), without, later)
	return t.failures() > 0, nil
}

// abreast is how many modules are tested at a time, after the one at the top. Most have one
// package with tests, which leaves cores idle.
const abreast = 2

// runAll runs jobs, so many of them at a time, and counts what they do.
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

// cutLater removes the flag -later and returns the modules that it names.
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

// split takes the flags of go test apart from the packages after them. A flag
// with a value must be written with an equals sign.
func split(args []string) (flags, packages []string) {
	at := slices.IndexFunc(args, func(arg string) bool { return !strings.HasPrefix(arg, "-") })
	if at < 0 {
		return args, nil
	}
	return args[:at], args[at:]
}
