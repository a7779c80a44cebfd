package manager

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/sharedinformer"
)

const (
	// askAgain is how often awaitCaches logs why it is still waiting.
	askAgain = 10 * time.Second

	// stopsSlowly is how long a group may take to stop before a warning is logged.
	stopsSlowly = 10 * time.Second

	// lastMoment is how long groups may take to stop if they are only asked to after the timeout.
	lastMoment = time.Second
)

// Run opens the ports, starts the groups one after another, and stops them in reverse order when ctx is
// done or something fails. To stop a group, Run cancels the contexts of its runnables, and thus those of
// running reconciles, and waits until the runnables have returned. Run returns nil after a clean stop.
// Otherwise the error joins all failures, each with its runnable's name.
//
// If the program has not stopped within Options.GracefulShutdownTimeout (30 s by default), Run cancels all
// contexts that are left and waits for one more second. If something is still running then, the error wraps
// ErrNotStopped and lists it. The lease is not released while leader-elected work is running, so the
// process should exit.
func (m *Manager) Run(ctx context.Context) error {
	ports, err := m.begin()
	if err != nil {
		return err
	}
	m.shared.use()
	// Groups stop one after another, so their contexts must outlive ctx.
	life := context.WithoutCancel(ctx)
	for _, l := range ports {
		if err := m.listen(l); err != nil {
			m.stop(life) // nothing is running, and nothing will start
			name, _ := nameOf(*l)
			return fmt.Errorf("manager: %w", errors.Join(fmt.Errorf("%s: %w", name, err), m.closePorts()))
		}
	}
	for _, g := range m.groups[:LeaderElected] {
		g.open(life)
	}
	if err := m.election.add(task{name: "leader election", run: m.elect}); err != nil {
		return err
	}
	m.election.open(life)
	select {
	case <-ctx.Done():
		m.logger.Info("stopping", "cause", context.Cause(ctx))
	case <-m.failing:
		m.logger.Error("stopping after a failure", "err", errors.Join(m.failures()...))
	}
	m.stop(life)
	if err := m.closePorts(); err != nil {
		m.fail(err)
	}
	for _, c := range append(m.clients, m.Client()) { // other code may also use the cluster's client
		c.CloseIdleConnections()
	}
	return errors.Join(m.failures()...)
}

// begin claims the manager for its single run.
func (m *Manager) begin() ([]*listener, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state != idle {
		return nil, ErrRunning
	}
	m.state = running
	return slices.Clone(m.listeners), nil
}

func (m *Manager) setState(s state) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = s
}

// stop stops the groups in reverse order.
func (m *Manager) stop(ctx context.Context) {
	m.setState(stopping)
	if patience := m.opts.GracefulShutdownTimeout; patience > 0 {
		limited, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		ctx = limited
	}
	m.groups[LeaderElected].close() // the group may never have been opened
	order := append(slices.Clone(m.groups[:LeaderElected]), m.election)
	slices.Reverse(order)
	for _, g := range order {
		if g.close(); !m.stopped(ctx, g) {
			break // time is up
		}
	}
	if ctx.Err() != nil {
		m.abandon(order)
	}
}

// stopped waits until a closed group has stopped, and reports whether it has. If that takes too long, it
// logs what it is waiting for, since the process may be killed at the timeout, before it can log anything.
func (m *Manager) stopped(ctx context.Context, g *group) bool {
	soon, cancel := context.WithTimeout(ctx, stopsSlowly)
	defer cancel()
	left := g.wait(soon)
	if len(left) == 0 || ctx.Err() != nil {
		return len(left) == 0
	}
	m.logger.Warn("still stopping", "running", m.unfinished(soon, g), "timeout", m.opts.GracefulShutdownTimeout)
	return len(g.wait(ctx)) == 0
}

// unfinished waits for groups until ctx is done, and returns what is still running. The election task
// outlives the leader's work, so it is listed only once that work has ended.
func (m *Manager) unfinished(ctx context.Context, groups ...*group) []string {
	var left []*task
	for _, g := range groups {
		if g == m.election {
			if led := m.groups[LeaderElected].wait(ctx); len(led) > 0 {
				left = append(left, led...)
				continue
			}
		}
		left = append(left, g.wait(ctx)...)
	}
	names := make([]string, len(left))
	var asking sync.WaitGroup
	for n, t := range left {
		asking.Go(func() { names[n] = t.String() }) // it may take unfinishedPatience
	}
	asking.Wait()
	return names
}

// abandon stops all remaining groups at once, and records everything that does not stop.
func (m *Manager) abandon(order []*group) {
	ctx, cancel := context.WithTimeout(context.Background(), lastMoment)
	defer cancel()
	for _, g := range order {
		g.close()
	}
	if left := m.unfinished(ctx, order...); len(left) > 0 {
		m.fail(fmt.Errorf("%w (%s): %s", ErrNotStopped, m.opts.GracefulShutdownTimeout, strings.Join(left, ", ")))
	}
}

// elect participates in the election and runs LeaderElected while this process is the leader.
func (m *Manager) elect(ctx context.Context) error {
	if m.elector == nil {
		return m.lead(ctx)
	}
	m.getWarm(ctx)
	err := m.elector.Run(ctx, m.lead)
	if errors.Is(err, leaderelection.ErrLost) && errors.Is(errors.Join(m.failures()...), leaderelection.ErrLost) {
		return nil // lead has already reported it
	}
	return err
}

// lead runs LeaderElected until ctx is done. It does not return until everything in LeaderElected has
// stopped, because the lease must outlive it.
func (m *Manager) lead(ctx context.Context) error {
	leader := m.groups[LeaderElected]
	leader.open(ctx)
	close(m.elected)
	<-ctx.Done()
	leader.close()
	if cause := context.Cause(ctx); errors.Is(cause, leaderelection.ErrLost) {
		m.fail(cause) // report it now, since the work may never end
	}
	leader.wait(context.Background())
	return nil
}

// getWarm waits until this process is ready to start working as soon as it is elected. It waits no longer
// than WarmupTimeout, because a kind that cannot be listed must not block all work.
func (m *Manager) getWarm(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, m.opts.WarmupTimeout)
	defer cancel()
	err := m.awaitCaches(ctx, func(error) {})
	cold := m.groups[warmUps].wait(ctx)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		m.logger.Warn("joining the election before everything is warm", "timeout", m.opts.WarmupTimeout, "cold", cold, "err", err)
	}
}

// warmUp returns a task that calls Warmup and closes warm when it has returned.
func warmUp(name string, w Warmer, warm chan struct{}) task {
	return task{name: name + " (warm-up)", run: func(ctx context.Context) error {
		if err := w.Warmup(ctx); err != nil || ctx.Err() != nil {
			return err
		}
		close(warm)
		return nil
	}}
}

// watched returns a run function that makes /readyz check r while it is running.
func (m *Manager) watched(r *checked, run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		m.mu.Lock()
		m.readiers = append(m.readiers, r)
		m.mu.Unlock()
		defer func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.readiers = slices.DeleteFunc(m.readiers, func(other *checked) bool { return other == r })
		}()
		return run(ctx)
	}
}

// afterWarmUp returns a run function that starts after the warm-up.
func afterWarmUp(run func(context.Context) error, warm <-chan struct{}) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-warm:
			return run(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// afterCaches returns a run function that starts once the caches are synced.
func (m *Manager) afterCaches(name string, run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := m.awaitCaches(ctx, func(err error) {
			m.logger.Error("a runnable is waiting for caches to sync", "runnable", name, "err", err)
		})
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		return run(ctx)
	}
}

// awaitCaches waits until all existing caches are synced, and periodically calls tell with the reasons for
// waiting. It fails if the factory was misused or ctx is done.
func (m *Manager) awaitCaches(ctx context.Context, tell func(error)) error {
	m.mu.Lock()
	caches := slices.Clone(m.caches)
	m.mu.Unlock()
	for _, c := range caches {
		for {
			err := c.WaitForSync(ctx)
			if err == nil {
				break
			}
			if ctx.Err() != nil || !errors.Is(err, sharedinformer.ErrNotSynced) {
				return err
			}
			tell(err)
			if err := pause(ctx, askAgain); err != nil {
				return err
			}
		}
	}
	return nil
}

// pause waits for d. It returns the cause of ctx if ctx is done first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// SignalContext returns a context that is canceled on the first SIGINT or SIGTERM; its cause includes
// the signal. On a second signal, the process exits immediately with code 1. Call it once, in main: its
// goroutine lives as long as the process.
func SignalContext() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		cancel(fmt.Errorf("%w by signal %q", context.Canceled, <-signals))
		<-signals
		os.Exit(1)
	}()
	return ctx
}
