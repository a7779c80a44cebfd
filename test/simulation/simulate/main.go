// Command simulate plays schedules of package simulation on all cores, either a number of schedules or
// for some time.
//
//	go -C test/simulation run ./simulate -runs 1000000
//	go -C test/simulation run ./simulate -time 1h -from 5000000
//
// It prints what was played. If a schedule fails, it shrinks the schedule, prints it as a test, and
// exits with 1.
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
	flag.IntVar(&o.runs, "runs", 0, "number of schedules to play; 0 is as many as fit into -time")
	flag.DurationVar(&o.time, "time", 0, "how long to play; 0 is until -runs schedules were played")
	flag.Uint64Var(&o.from, "from", 0, "the first seed")
	flag.IntVar(&o.workers, "workers", runtime.NumCPU(), "number of concurrent players")
	flag.IntVar(&o.block, "block", 500, "schedules per process")
	flag.DurationVar(&o.hang, "hang", 2*time.Minute, "time after which a schedule counts as hanging; raise it on a busy machine")
	flag.StringVar(&o.binary, "binary", "", "a `file` that go test -c made of package simulation, to be used instead of a new one")
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
		return errors.New("say how long: -runs N or -time D")
	}
	if o.workers < 1 || o.block < 1 || o.hang <= 0 {
		return errors.New("-workers and -block are at least 1, and -hang is more than 0")
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
	if o.binary, err = filepath.Abs(o.binary); err != nil { // it runs in another folder
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
	return fmt.Errorf("%d schedules in which something is wrong", len(w.broken))
}
