package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/millrace-dev/millrace/cmd/informer-bench/scenario"
)

const (
	// closeEnough ends the search: it stops once the smallest sufficient limit is within this ratio of the
	// largest insufficient one.
	closeEnough = 1.03

	// heapShare is the percentage of the limit to set as GOMEMLIMIT.
	heapShare = 90

	// slowness and grace limit how much longer a run may take with a memory limit than without, so a
	// contestant that only collects garbage fails.
	slowness, grace = 4, 10 * time.Second
)

// smallest finds the smallest memory limit under which an entrant completes the work, and returns the outcome
// of that run.
func (c *contest) smallest(ctx context.Context, j scenario.Job, e entrant, server *loadServer) (*outcome, error) {
	began := time.Now()
	best, err := c.attempt(ctx, j, e, server, 0)
	if err != nil {
		return nil, err
	}
	patience := slowness*time.Since(began) + grace
	limit := bisect(2*peak(best), func(limit uint64) bool {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		o, err := c.attempt(ctx, j, e, server, limit)
		fmt.Fprintf(c.progress, "%s: %s: %d MiB: %s\n", j.Title(), e.name, limit>>20, verdict(err))
		if err == nil {
			best = o
		}
		return err == nil
	})
	best.limit = limit
	return best, ctx.Err()
}

// canLimit returns an error if this process cannot limit the memory of other processes.
func canLimit() error {
	_, remove, err := memoryGroup(1 << 30)
	if err == nil {
		remove()
	}
	return err
}

// bisect approximates the smallest sufficient limit, starting from one that is known to be sufficient.
func bisect(most uint64, enough func(limit uint64) bool) uint64 {
	for tooSmall := most / 32; float64(most) > closeEnough*float64(tooSmall); {
		if limit := (most + tooSmall) / 2; enough(limit) {
			most = limit
		} else {
			tooSmall = limit
		}
	}
	return most
}

func verdict(err error) string {
	if err != nil {
		return fmt.Sprintf("too small: %.120s", err.Error())
	}
	return "enough"
}

// peak returns the highest memory reading in an outcome.
func peak(o *outcome) (bytes uint64) {
	for _, r := range o.marks {
		bytes = max(bytes, r.peak)
	}
	return bytes
}

// launchWithin starts a program. Unless limit is 0, the program runs in a new cgroup with that memory limit,
// and with GOMEMLIMIT set below it, as in a well-configured container. Call remove after the program has
// exited.
func launchWithin(ctx context.Context, name, path string, limit uint64) (p *process, remove func(), err error) {
	if limit == 0 {
		p, err = launch(ctx, name, path)
		return p, func() {}, err
	}
	dir, remove, err := memoryGroup(limit)
	if err != nil {
		return nil, nil, fmt.Errorf("limit memory of %s: %w", name, err)
	}
	const enter = `echo $$ > "$1/cgroup.procs" && GOMEMLIMIT="$2" exec "$3"`
	p, err = launch(ctx, name, "/bin/sh", "-c", enter, "sh", dir, strconv.FormatUint(limit/100*heapShare, 10), path)
	if err != nil {
		remove()
		return nil, nil, err
	}
	return p, remove, nil
}
