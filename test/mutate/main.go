// Command mutate breaks the code on purpose and checks that package simulation's schedules find the
// breakages:
//
//	go run ./test/mutate                               # all breakages
//	go run ./test/mutate -only 'coalescer|queue' -schedules 5000
//	go run ./test/mutate -table results/breakages.md      # and record what found them
//
// Each file in patches is one breakage, of the kind a tired colleague might write. It contains a unified
// diff, preceded by a line with the broken law and a description. The diff is applied to copies of the files,
// and the tests are built with go test -overlay, so the tree does not change. A single build contains all
// breakages that can be selected (see board). Hunks are located by their context, not by line numbers. It is
// an error if a hunk fits nowhere or in two places, which a test in this package checks, or if a breakage
// does not compile.
//
// Breakages of work sharing are found by schedules in other packages, specified by a second line: "schedules
// PACKAGE TEST". If no schedule can find a breakage, such as a race window of a few instructions, the second
// line specifies a test that does, and the reason: "test PACKAGE NAME: why". That test is run instead, and
// must fail.
//
// A test that also fails without a breakage proves nothing. So the command first runs the specified tests,
// and one schedule of each kind, with the unbroken code. At the end it runs as many schedules with the
// unbroken code as it took to find breakages.
//
// For each breakage, the table lists the test that found it, the number of schedules run, and the law cited
// in the failure. A breakage that survives reveals a gap in the schedules or their checks, and makes the
// command exit with code 1. With -only, -table keeps the rows for other breakages.
package main

import (
	"context"
	"embed"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

//go:embed patches/*.patch
var patches embed.FS

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var o options
	only := flag.String("only", "", "only try the breakages whose name matches this `regexp`")
	flag.IntVar(&o.schedules, "schedules", 1000, "schedules to run per breakage")
	flag.Uint64Var(&o.from, "from", 0, "seed of the first schedule")
	file := flag.String("table", "", "write the table to this Markdown `file`")
	flag.DurationVar(&o.timeout, "timeout", 10*time.Minute, "how long the schedules for one breakage may take; a breakage that takes longer counts as found")
	jobs := flag.Int("jobs", runtime.NumCPU(), "number of breakages to try concurrently")
	flag.Parse()
	if err := run(ctx, o, *only, *jobs, *file); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// run tries the breakages and writes the table.
func run(ctx context.Context, o options, only string, jobs int, file string) error {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	all, err := readAll(patches)
	if err != nil {
		return err
	}
	var some []*patch
	for _, p := range all {
		if wanted.MatchString(p.name) {
			some = append(some, p)
		}
	}
	if o.root, err = moduleRoot(ctx); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	w, err := newWorkbench(ctx, o, dir, some)
	if err != nil {
		return err
	}
	if err := w.sound(ctx, some); err != nil {
		return err
	}
	results := playAll(ctx, w, some, jobs, func(r result) { fmt.Fprintln(os.Stderr, r.patch.name+":", r.verdict(), r.complaint) })
	if file != "" {
		if err := writePage(file, all, results); err != nil {
			return err
		}
	}
	if err := w.unbroken(ctx, results); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted after %d of %d breakages", len(results), len(some))
	}
	return sum(os.Stdout, results)
}

// playAll tries breakages concurrently until ctx is done. It returns the results for those that were tried.
func playAll(ctx context.Context, w *workbench, all []*patch, jobs int, done func(result)) []result {
	results, turns := make([]result, len(all)), make(chan struct{}, max(1, jobs))
	var wait sync.WaitGroup
	for n, p := range all {
		turns <- struct{}{}
		wait.Go(func() {
			defer func() { <-turns }()
			if r := w.play(ctx, p); ctx.Err() == nil {
				results[n] = r
				done(r)
			}
		})
	}
	wait.Wait()
	return slices.DeleteFunc(results, func(r result) bool { return r.patch == nil })
}

// sum prints a summary. It returns an error if a breakage survived or could not be tried.
func sum(out io.Writer, results []result) error {
	found, failed := 0, 0
	for _, r := range results {
		switch {
		case r.err != nil:
			fmt.Fprintf(out, "%s: %v\n", r.patch.name, r.err)
			failed++
		case r.found:
			found++
		default:
			fmt.Fprintf(out, "%s (%s) survived: %s\n", r.patch.name, r.patch.law, r.patch.text)
		}
	}
	fmt.Fprintf(out, "%d of %d found\n", found, len(results))
	switch survived := len(results) - found - failed; {
	case failed > 0:
		return fmt.Errorf("%d breakages could not be tried", failed)
	case survived > 0:
		return fmt.Errorf("%d breakages survived", survived)
	}
	return nil
}

// readAll reads the patches, sorted by name.
func readAll(from fs.FS) ([]*patch, error) {
	names, err := fs.Glob(from, "patches/*.patch")
	if err != nil {
		return nil, err
	}
	var all []*patch
	for _, name := range names {
		text, err := fs.ReadFile(from, name)
		if err != nil {
			return nil, err
		}
		p, err := parse(strings.TrimSuffix(strings.TrimPrefix(name, "patches/"), ".patch"), string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}
