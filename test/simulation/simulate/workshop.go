package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/millrace-dev/millrace/test/simulation"
)

// workshop runs blocks of seeds in child processes, so that a hang or crash costs only one seed.
type workshop struct {
	options
	dir   string
	began time.Time

	mu     sync.Mutex // guards the fields below
	next   uint64     // the first seed not yet taken
	total  simulation.Played
	broken []violation
	unable error // why schedules cannot run
	told   time.Time
}

// violation is a failing seed.
type violation struct {
	seed uint64
	said string
}

// enough is the number of violations after which to stop.
const enough = 3

// patience is how long a process may take to exit after it is stopped.
const patience = 5 * time.Minute

// play runs schedules until there have been enough or time is up.
func (w *workshop) play(ctx context.Context) {
	if w.time > 0 {
		limited, cancel := context.WithTimeout(ctx, w.time)
		defer cancel()
		ctx = limited
	}
	var all sync.WaitGroup
	for range w.workers {
		all.Go(func() {
			for {
				from, count, more := w.take()
				if !more || ctx.Err() != nil {
					return
				}
				w.block(ctx, from, count)
			}
		})
	}
	all.Wait()
}

// take returns the next block.
func (w *workshop) take() (from uint64, count int, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	count = w.options.block
	if w.runs > 0 {
		count = min(count, w.runs-int(w.next-w.from))
	}
	if count <= 0 || w.over() {
		return 0, 0, false
	}
	from = w.next
	w.next += uint64(count)
	return from, count, true
}

func (w *workshop) enough() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.over()
}

// over reports whether to stop. w.mu must be held.
func (w *workshop) over() bool { return len(w.broken) >= enough || w.unable != nil }

var seedLine = regexp.MustCompile(`(?m)^seed (\d+)\n`)

// block runs a block of seeds, continuing after failing ones.
func (w *workshop) block(ctx context.Context, from uint64, count int) {
	for count > 0 && ctx.Err() == nil && !w.enough() {
		said, err := w.child(ctx, "-from", fmt.Sprint(from), "-schedules", fmt.Sprint(count))
		if err == nil {
			w.played(said)
			return
		}
		if ctx.Err() != nil {
			return // so this block's schedules are not counted
		}
		if _, ran := errors.AsType[*exec.ExitError](err); !ran {
			w.mu.Lock()
			w.unable = fmt.Errorf("run schedules: %w", err)
			w.mu.Unlock()
			return
		}
		seed := from
		if all := seedLine.FindAllSubmatch(said, -1); len(all) > 0 {
			seed, _ = strconv.ParseUint(string(all[len(all)-1][1]), 10, 64)
		}
		text := strings.TrimSpace(string(tail(seedLine.ReplaceAll(said, nil))))
		fmt.Fprintf(os.Stderr, "\nseed %d:\n%s\n\n", seed, text) // print immediately, in case the run is interrupted
		w.mu.Lock()
		w.broken = append(w.broken, violation{seed, text})
		w.mu.Unlock()
		count -= int(seed + 1 - from)
		from = seed + 1
	}
}

// played adds the counts printed by a child process.
func (w *workshop) played(said []byte) {
	_, text, _ := bytes.Cut(said, []byte("played "))
	var p simulation.Played
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&p); err != nil {
		fmt.Fprintf(os.Stderr, "simulate: parse a process's counts: %v\n", err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.total.Add(p)
	if time.Since(w.told) > 10*time.Second {
		w.told = time.Now()
		fmt.Fprintln(os.Stderr, w.text())
	}
}

func (w *workshop) summary() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text()
}

func (w *workshop) text() string {
	return fmt.Sprintf("%d schedules from seed %d on: %d steps, %d requests, %d events in %.1f virtual days; %d violations; %s on %d cores",
		w.total.Schedules, w.from, w.total.Steps, w.total.Requests, w.total.Events,
		w.total.Virtual.Hours()/24, len(w.broken), time.Since(w.began).Round(time.Second), w.workers)
}

// shrink shrinks the schedule for a seed and returns it as Go source.
func (w *workshop) shrink(ctx context.Context, seed uint64) string {
	return w.shrinkSchedule(ctx, simulation.Draw(seed)).String()
}

// shrinkSchedule shrinks s. It returns s unchanged if s does not fail when run alone.
func (w *workshop) shrinkSchedule(ctx context.Context, s simulation.Schedule) simulation.Schedule {
	file := filepath.Join(w.dir, "schedule.json")
	fails := func(s simulation.Schedule) bool {
		text, err := json.Marshal(s)
		if err != nil || ctx.Err() != nil {
			return false
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return false
		}
		_, err = w.child(ctx, "-schedule", file)
		return err != nil
	}
	if !fails(s) {
		return s
	}
	return simulation.Shrink(s, fails)
}

// child runs the test in a child process with one core, so that goroutine scheduling is deterministic.
func (w *workshop) child(ctx context.Context, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, w.binary, append([]string{"-test.run", "^TestSchedules$", "-test.timeout", "0", "-hang", w.hang.String()}, args...)...)
	c.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=400")
	c.Dir = w.dir
	c.WaitDelay = patience
	return c.CombinedOutput()
}

// tail returns the end of a process's output.
func tail(said []byte) []byte {
	const most = 4000
	return said[max(0, len(said)-most):]
}
