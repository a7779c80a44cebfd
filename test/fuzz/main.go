// Command fuzz runs every fuzz target of the module in the working directory, one
// after the other, and counts what it ran.
//
//	go run ./test/fuzz -time 1m                  # each target for a minute
//	go run ./test/fuzz -execs 100000000          # that many inputs in all, shared equally
//	go run ./test/fuzz -execs 1000000 ./wire     # of some packages
//
// At the end, and when it is interrupted, it prints a table in Markdown: how many
// inputs each target was given, and in what time. With -total it adds to the counts
// in a file, so that many nights make one number.
//
// # What is kept
//
// go test runs the inputs in testdata/fuzz beside each target, and fuzzing begins with
// them. Some were found by fuzzing, which leaves what reaches new code in Go's build cache:
//
//	go run ./test/fuzz -keep            # or of some packages
//
// takes from there, and from what was kept in this way before, the smallest inputs that
// reach a block of code which nothing before them reaches. Their names begin with reaches-.
// Run it after a long night, and commit what it leaves. Inputs with other names have found
// a mistake once, and stay.
//
// # Failure
//
// A target that fails does not stop the others. Its input is in testdata/fuzz beside
// it, where go test finds it from then on. The command then exits with 1.
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
	limit := flag.Duration("time", time.Minute, "how long to run each target")
	execs := flag.Int("execs", 0, "how many inputs to run in all, instead of a time")
	keeps := flag.Bool("keep", false, "fuzz nothing, and choose anew which inputs are kept: see the package's documentation")
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

// keepAll keeps inputs for the targets of the packages.
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
