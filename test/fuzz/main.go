// Command fuzz runs every fuzz target of the module in the working directory, one after another, and counts
// the inputs.
//
//	go run ./test/fuzz -time 1m                  # each target for a minute
//	go run ./test/fuzz -execs 100000000          # that many inputs in all, shared equally
//	go run ./test/fuzz -execs 1000000 ./wire     # of some packages
//
// At the end, and when interrupted, it prints a Markdown table with each target's number of inputs and
// time. With -total it adds the counts to a file, to sum up many nights.
//
// # What is kept
//
// go test runs the inputs in testdata/fuzz next to each target, and fuzzing starts with them. Some of
// them were found by fuzzing, which stores inputs that reach new code in Go's build cache. The command
//
//	go run ./test/fuzz -keep            # or of some packages
//
// selects from these and the inputs kept earlier. It keeps the smallest inputs that reach a block of
// code not reached by earlier ones. Their names begin with reaches-. Run it after a long night, and
// commit the result. Inputs with other names once found a bug, and are always kept.
//
// # Failure
//
// A failing target does not stop the others. Its input is written to testdata/fuzz next to the target,
// where go test finds it from then on. The command then exits with 1.
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

// keepAll selects inputs for the targets of the packages.
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

// run runs the targets of the packages and prints the table.
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
