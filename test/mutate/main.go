// Command mutate breaks the code on purpose and sees whether the schedules of package
// simulation find it:
//
//	go run ./test/mutate                               # all of them
//	go run ./test/mutate -only 'coalescer|queue' -schedules 5000
//	go run ./test/mutate -table results/breakages.md      # and write down what found them
//
// Each file in patches is one breakage, such as a tired colleague could write: a line
// that says which law it breaks and how, and a unified diff. The diff is applied to
// copies of the files, and the tests are built with go test -overlay, so that nothing in
// the tree is touched; one build has as many breakages as can be chosen from (see board).
// Hunks are found by their lines, not by their numbers; one that fits nowhere, or twice, is
// an error, and so is a breakage that does not compile. A test of this package looks for
// the former.
//
// What goes wrong only where work is shared is found by the schedules of other packages, which a
// second line names: "schedules PACKAGE TEST". Where no schedule can find a breakage, such
// as a race of a few instructions, it names the test that does, and says why: "test PACKAGE
// NAME: why". That test is run instead, and must fail.
//
// What fails with nothing broken finds nothing. So the tests that are named, and a schedule
// of each kind, are played unbroken first; and at the end as many schedules as found something.
//
// The table says what found each breakage, after how many schedules, and which law the
// complaint names. A breakage that survives is a hole in the schedules, or in what they
// check; the exit code is 1 then. With -only, -table leaves the rows of the others as they
// are.
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
	only := flag.String("only", "", "play only the breakages whose name matches this `regexp`")
	flag.IntVar(&o.schedules, "schedules", 1000, "how many schedules to play of each breakage")
	flag.Uint64Var(&o.from, "from", 0, "the seed of the first schedule")
	file := flag.String("table", "", "write the table into this Markdown `file`")
	flag.DurationVar(&o.timeout, "timeout", 10*time.Minute, "how long the schedules of one breakage may take; one that takes longer is found")
	jobs := flag.Int("jobs", runtime.NumCPU(), "how many breakages to play at once")
	flag.Parse()
	if err := run(ctx, o, *only, *jobs, *file); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// run plays all breakages and writes the table.
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

// playAll plays the breakages, some at a time, until ctx is done. It returns the results
// of those that were played.
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

// sum says what came out, and fails if a breakage survived or could not be played.
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
		return fmt.Errorf("%d breakages could not be played", failed)
	case survived > 0:
		return fmt.Errorf("%d breakages survived", survived)
	}
	return nil
}

// readAll reads the patches, in the order of their names.
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
