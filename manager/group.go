package manager

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/millrace-dev/millrace/failure"
)

// task is a function run by a group, with a name for errors.
type task struct {
	name       string
	run        func(context.Context) error
	unfinished func() []string // lists the work that keeps run from returning; nil if unknown
}

// String returns the name, followed by the unfinished work if any.
func (t *task) String() string {
	if t.unfinished == nil {
		return t.name
	}
	return withUnfinished(t.name, t.unfinished())
}

func withUnfinished(name string, left []string) string {
	if len(left) == 0 {
		return name
	}
	return fmt.Sprintf("%s (%s)", name, strings.Join(left, ", "))
}

// group runs tasks between open and close. Tasks added before open do not run until then; tasks added after
// close are rejected.
type group struct {
	failed func(error) // called for each task that failed

	mu      sync.Mutex // guards the fields below; no other code is called while it is held
	ctx     context.Context
	cancel  context.CancelFunc // nil until the group is opened
	closed  bool
	waiting []task
	running map[*task]struct{}
	ended   chan struct{} // closed and replaced when a task ends
}

func newGroup(failed func(error)) *group {
	return &group{failed: failed, running: map[*task]struct{}{}, ended: make(chan struct{})}
}

// add runs t immediately if the group is open, and otherwise once it opens.
func (g *group) add(t task) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed:
		return ErrStopped
	case g.cancel == nil:
		g.waiting = append(g.waiting, t)
	default:
		g.start(t)
	}
	return nil
}

// open starts the tasks added so far; later ones start immediately.
func (g *group) open(ctx context.Context) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	g.ctx, g.cancel = context.WithCancel(ctx)
	for _, t := range g.waiting {
		g.start(t)
	}
	g.waiting = nil
}

// start starts a task. The caller holds mu.
func (g *group) start(t task) {
	running, ctx := &t, g.ctx
	g.running[running] = struct{}{}
	go func() {
		defer g.end(running)
		failed := func(err error) { g.failed(fmt.Errorf("%s: %w", t.name, err)) }
		if err := t.call(ctx, failed); err != nil && !failure.Stopped(ctx, err) {
			failed(err)
		}
	}()
}

// call runs the task and converts a panic to an error. If run calls runtime.Goexit, exited is called.
func (t task) call(ctx context.Context, exited func(error)) (err error) {
	guard := failure.Guard{In: "Run"}
	defer guard.End(&err, exited)
	err = t.run(ctx)
	guard.Returned()
	return err
}

func (g *group) end(t *task) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.running, t)
	close(g.ended)
	g.ended = make(chan struct{})
}

// close cancels the context of all tasks.
func (g *group) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed, g.waiting = true, nil
	if g.cancel != nil {
		g.cancel()
	}
}

// wait waits until all tasks have ended or ctx is done, and returns the tasks still running.
func (g *group) wait(ctx context.Context) []*task {
	for {
		g.mu.Lock()
		left, ended := g.tasks(), g.ended
		g.mu.Unlock()
		if len(left) == 0 {
			return nil
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return left
		}
	}
}

// tasks returns the running tasks, sorted by name. The caller holds mu.
func (g *group) tasks() []*task {
	return slices.SortedFunc(maps.Keys(g.running), func(a, b *task) int { return cmp.Compare(a.name, b.name) })
}

// status returns the names of the running and the waiting tasks.
func (g *group) status() (running, waiting []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, t := range g.waiting {
		waiting = append(waiting, t.name)
	}
	for _, t := range g.tasks() {
		running = append(running, t.name)
	}
	return running, waiting
}
