// Command fuzz runs every fuzz target of the module in the working directory, one after another, and counts
// the inputs.
//
//	go run ./test/fuzz -time 1m                  # each target for a minute
//	go run ./test/fuzz -execs 100000000          # that many inputs in total, divided equally
//	go run ./test/fuzz -execs 1000000 ./wire     # only some packages
//
// At the end, or when interrupted, it prints a Markdown table of inputs and time per target. With -total it
// adds the counts to a file, to keep a total over many nights.
//
// # Kept inputs
//
// go test runs the inputs in testdata/fuzz next to each target, and fuzzing starts with them. Some were found
// by fuzzing, which stores inputs that reach new code in Go's build cache. To select from these and from the
// inputs kept earlier, run
//
//	go run ./test/fuzz -keep            # or only some packages
//
// It keeps the smallest inputs that each reach a block of code not reached by the previous ones. Their
// names start with reaches-. Run it after a long night, and commit the result. Inputs with other names once
// found a bug, and are always kept.
//
// # Failure
//
// A failing target does not stop the others. Its input is written to testdata/fuzz next to the target,
// where go test finds it from then on. The command exits with code 1.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	limit := flag.Duration("time", time.Minute, "time per target")
	execs := flag.Int("execs", 0, "total number of inputs, instead of a time")
	keeps := flag.Bool("keep", false, "do not fuzz, but select the inputs to keep; see the package documentation")
	total := flag.String("total", "", "a `file` of counts to add to")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *keeps {
		if err := keepAll(ctx, flag.Args()); err != nil {
			fmt.Fprintln(os.Stderr, "fuzz:", err)
			os.Exit(1)
		}
		return
	}
	failed, err := run(ctx, *limit, *execs, *total, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
	}
	if failed || err != nil {
		os.Exit(1)
	}
}

// keepAll selects the inputs to keep for the packages' targets.
func keepAll(ctx context.Context, packages []string) error {
	if len(packages) == 0 {
		packages = []string{"./..."}
	}
	targets, err := find(ctx, packages)
	if err != nil {
		return err
	}
	return keep(ctx, targets)
}

// run runs the packages' targets and prints the table.
func run(ctx context.Context, limit time.Duration, execs int, total string, packages []string) (failed bool, err error) {
	if len(packages) == 0 {
		packages = []string{"./..."}
	}
	targets, err := find(ctx, packages)
	if err != nil {
		return false, err
	}
	if len(targets) == 0 {
		return false, fmt.Errorf("no fuzz targets in %q", packages)
	}
	w, err := newWorkbench(ctx)
	if err != nil {
		return false, err
	}
	defer w.close()
	count := counts{}
	if total != "" {
		if count, err = readCounts(total); err != nil {
			return false, err
		}
	}
	budget := limit.String()
	if execs > 0 {
		budget = fmt.Sprintf("%dx", max(1, execs/len(targets)))
	}
	for _, t := range targets {
		if ctx.Err() != nil {
			break
		}
		ran, err := t.fuzz(ctx, w, budget)
		count.add(t.String(), ran)
		if err != nil {
			failed = true
			fmt.Printf("%v failed: %v\n", t, err)
		}
		if total != "" {
			if err := count.write(total); err != nil {
				return failed, err
			}
		}
	}
	fmt.Print("\n", count.table())
	return failed, nil
}
