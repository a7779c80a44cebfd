// Command simulate runs schedules from package simulation on all cores, for a given time or until a given
// number is reached.
//
//	go -C test/simulation run ./simulate -runs 1000000
//	go -C test/simulation run ./simulate -time 1h -from 5000000
//
// It prints a summary. If a schedule fails, it shrinks the schedule, prints it as a test, and exits with
// code 1.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"time"
)

func main() {
	var o options
	flag.IntVar(&o.runs, "runs", 0, "number of schedules to run; 0 means as many as fit into -time")
	flag.DurationVar(&o.time, "time", 0, "how long to run; 0 means until -runs schedules have been run")
	flag.Uint64Var(&o.from, "from", 0, "first seed")
	flag.IntVar(&o.workers, "workers", runtime.NumCPU(), "number of concurrent workers")
	flag.IntVar(&o.block, "block", 500, "schedules per process")
	flag.DurationVar(&o.hang, "hang", 2*time.Minute, "time after which a schedule counts as hanging; raise it on a busy machine")
	flag.StringVar(&o.binary, "binary", "", "use this test binary `file` of package simulation, built by go test -c, instead of building one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "simulate:", err)
		os.Exit(1)
	}
}

type options struct {
	runs    int
	time    time.Duration
	from    uint64
	workers int
	block   int
	hang    time.Duration
	binary  string
}

func run(ctx context.Context, o options) error {
	if o.runs <= 0 && o.time <= 0 {
		return errors.New("specify -runs N or -time D")
	}
	if o.workers < 1 || o.block < 1 || o.hang <= 0 {
		return errors.New("-workers and -block must be at least 1, and -hang must be positive")
	}
	dir, err := os.MkdirTemp("", "millrace-simulate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if o.binary == "" {
		o.binary = filepath.Join(dir, "simulation.test")
		build := exec.CommandContext(ctx, "go", "test", "-c", "-o", o.binary, "github.com/millrace-dev/millrace/test/simulation")
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("build the simulation: %w", err)
		}
	}
	if o.binary, err = filepath.Abs(o.binary); err != nil { // it runs in a different directory
		return fmt.Errorf("-binary: %w", err)
	}
	w := &workshop{options: o, dir: dir, began: time.Now(), next: o.from}
	w.play(ctx)
	fmt.Println(w.summary())
	if w.unable != nil {
		return w.unable
	}
	if len(w.broken) == 0 {
		return context.Cause(ctx)
	}
	for _, b := range w.broken {
		fmt.Printf("\nseed %d:\n%s\n", b.seed, b.said)
	}
	fmt.Printf("\nseed %d, shrunk:\n%s\n", w.broken[0].seed, w.shrink(ctx, w.broken[0].seed))
	return fmt.Errorf("%d schedules failed", len(w.broken))
}
