package manager

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/millrace-dev/millrace/leaderelection"
	"github.com/millrace-dev/millrace/sharedinformer"
)

const (
	// askAgain is how long to wait before a caller that waits for caches is told
	// again why.
	askAgain = 10 * time.Second

	// stopsSlowly is how long a group may take to stop without a word.
	stopsSlowly = 10 * time.Second

	// lastMoment is for what could not be asked to stop before the time was up.
	lastMoment = time.Second
)

// Run opens the ports, starts the groups one after the other, and stops them in
// the reverse order when ctx is done or something has failed. It returns when
// everything has stopped, or GracefulShutdownTimeout later: nil, or every error
// that there was, each with the name of whose it is.
func (m *Manager) Run(ctx context.Context) error {
	ports, err := m.begin()
	if err != nil {
		return err
	}
	m.shared.use()
	// The groups end one after the other, and therefore not with ctx.
	life := context.WithoutCancel(ctx)
	for _, l := range ports {
		if err := m.listen(l); err != nil {
			m.stop(life) // nothing runs, and nothing will
			return fmt.Errorf("manager: %w", errors.Join(err, m.closePorts()))
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
	for _, c := range append(m.clients, m.Client()) { // others than the cluster use its client, too
		c.CloseIdleConnections()
	}
	return errors.Join(m.failures()...)
}

// begin claims the manager for the one run that it has.
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

// stop stops the groups, the last one first.
func (m *Manager) stop(ctx context.Context) {
	m.setState(stopping)
	if patience := m.opts.GracefulShutdownTimeout; patience > 0 {
		limited, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		ctx = limited
	}
	m.groups[LeaderElected].close() // in case that it was never opened
	order := append(slices.Clone(m.groups[:LeaderElected]), m.election)
	slices.Reverse(order)
	for _, g := range order {
		if g.close(); !m.stopped(ctx, g) {
			break // the time is up
		}
	}
	if ctx.Err() != nil {
		m.abandon(order)
	}
}

// stopped waits until a group that was closed has ended, and reports whether it has.
// Where that takes long it says for what: whoever kills the process when its time is
// up does not let it say so then.
func (m *Manager) stopped(ctx context.Context, g *group) bool {
	soon, cancel := context.WithTimeout(ctx, stopsSlowly)
	defer cancel()
	left := g.wait(soon)
	if len(left) == 0 || ctx.Err() != nil {
		return len(left) == 0
	}
	m.logger.Warn("stopping takes long", "running", m.unfinished(soon, g), "timeout", m.opts.GracefulShutdownTimeout)
	return len(g.wait(ctx)) == 0
}

// unfinished waits for groups until ctx is done, and says what still runs then. The election
// ends after the work of the leader, so it is named only if that has ended.
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
	var names []string
	for _, t := range left {
		names = append(names, t.String())
	}
	return names
}

// abandon asks what is left to stop, all at once, and names what does not.
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

// elect takes part in the election and runs what only the leader may run.
func (m *Manager) elect(ctx context.Context) error {
	if m.elector == nil {
		return m.lead(ctx)
	}
	m.getWarm(ctx)
	err := m.elector.Run(ctx, m.lead)
	if errors.Is(err, leaderelection.ErrLost) {
		return nil // lead has said it
	}
	return err
}

// lead runs LeaderElected until ctx is done, and returns when all of it has
// ended: the lease outlives it.
func (m *Manager) lead(ctx context.Context) error {
	leader := m.groups[LeaderElected]
	leader.open(ctx)
	close(m.elected)
	<-ctx.Done()
	leader.close()
	if cause := context.Cause(ctx); errors.Is(cause, leaderelection.ErrLost) {
		m.fail(cause) // now, since the work may never end
	}
	leader.wait(context.Background())
	return nil
}

// getWarm waits until we could do the work at once if we were elected, for as
// long as the options say: longer would mean that a kind that cannot be listed
// keeps us from all work.
func (m *Manager) getWarm(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, m.opts.WarmupTimeout)
	defer cancel()
	err := m.awaitCaches(ctx, func(error) {})
	cold := m.groups[warmUps].wait(ctx)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		m.logger.Warn("taking part in the election although not all is warm", "timeout", m.opts.WarmupTimeout, "cold", cold, "err", err)
	}
}

// warmUp is the task that calls Warmup, and closes warm when that has returned.
func warmUp(name string, w Warmer, warm chan struct{}) task {
	return task{name: name + " (warm-up)", run: func(ctx context.Context) error {
		if err := w.Warmup(ctx); err != nil || ctx.Err() != nil {
			return err
		}
		close(warm)
		return nil
	}}
}

// watched is the Run of a Readier, during which it is asked whether it is ready.
func (m *Manager) watched(r Readier, run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		m.mu.Lock()
		m.readiers = append(m.readiers, &r)
		m.mu.Unlock()
		defer func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.readiers = slices.DeleteFunc(m.readiers, func(other *Readier) bool { return other == &r })
		}()
		return run(ctx)
	}
}

// afterWarmUp is a Warmer's Run.
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

// afterCaches is the Run of a runnable that relies on caches being synced.
func (m *Manager) afterCaches(name string, run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := m.awaitCaches(ctx, func(err error) {
			m.logger.Error("a runnable is held up by caches that are not synced", "runnable", name, "err", err)
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

// awaitCaches waits until all caches that there are now are synced. It tells
// now and then what they wait for. It fails at once where the factory was
// misused, and when ctx is done.
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

// pause waits for d, or for the end of ctx, whose cause it returns then.
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

// SignalContext returns a context that ends with the first SIGINT or SIGTERM; its cause
// says which. The second signal ends the process at once, with exit code 1. Call it
// once, in main: the goroutine that waits lives as long as the process.
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
