// Command mutate breaks the code on purpose and sees whether the schedules of package
// simulation find it:
//
//	go run ./test/mutate -schedules 2000
//	go run ./test/mutate -only 'coalescer|queue'
//
// Each file in patches is one breakage, such as a tired colleague could write: a line
// that says which law it breaks and how, and a unified diff. The diff is applied to
// copies of the files, and the tests are built with go test -overlay, so that nothing in
// the tree is touched. Hunks are found by their lines, not by their numbers; one that
// fits nowhere, or twice, is an error, and so is a breakage that does not compile. A test
// of this package looks for the former.
//
// The table says after how many schedules each breakage was found, which law the
// complaint names, or that the breakage survived. A breakage that survives is a hole in
// the schedules, or in what they check.
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
	"text/tabwriter"
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
	flag.DurationVar(&o.timeout, "timeout", 10*time.Minute, "how long the schedules of one breakage may take; one that takes longer is found")
	jobs := flag.Int("jobs", runtime.NumCPU(), "how many breakages to play at once")
	flag.Parse()
	if err := run(ctx, o, *only, *jobs, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// run plays all breakages and writes the table.
func run(ctx context.Context, o options, only string, jobs int, out io.Writer) error {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	all, err := readAll(patches)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(p *patch) bool { return !wanted.MatchString(p.name) })
	if o.root, err = moduleRoot(ctx); err != nil {
		return err
	}
	o.processors = max(1, runtime.NumCPU()/max(1, jobs))
	results := playAll(ctx, o, all, jobs, func(r result) { fmt.Fprintln(os.Stderr, r.patch.name, r.verdict(), r.complaint) })
	err = table(out, results)
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted after %d of %d breakages", len(results), len(all))
	}
	return err
}

// playAll plays the breakages, some at a time, until ctx is done. It returns the results
// of those that were played.
func playAll(ctx context.Context, o options, all []*patch, jobs int, done func(result)) []result {
	results, turns := make([]result, len(all)), make(chan struct{}, max(1, jobs))
	var wait sync.WaitGroup
	for n, p := range all {
		turns <- struct{}{}
		wait.Go(func() {
			defer func() { <-turns }()
			if r := play(ctx, o, p); ctx.Err() == nil {
				results[n] = r
				done(r)
			}
		})
	}
	wait.Wait()
	return slices.DeleteFunc(results, func(r result) bool { return r.patch == nil })
}

// table writes what came out, and fails if a breakage could not be played.
func table(out io.Writer, results []result) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "BREAKAGE\tLAW\tFOUND AFTER\tCOMPLAINT\tWHAT IS BROKEN")
	found, failed := 0, 0
	for _, r := range results {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.patch.name, r.patch.law, r.verdict(), r.complaint, r.patch.text)
		switch {
		case r.err != nil:
			failed++
		case r.found:
			found++
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d of %d found\n", found, len(results)-failed)
	for _, r := range results {
		if r.err != nil {
			fmt.Fprintf(out, "%s: %v\n", r.patch.name, r.err)
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d breakages could not be played", failed)
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
