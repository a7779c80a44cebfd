package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/millrace-dev/millrace/controller/internal/ownwrites"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/internal/printable"
	"github.com/millrace-dev/millrace/internal/trusted"
	"github.com/millrace-dev/millrace/shard"
)

// Controller calls a Reconciler for each request from its sources. Create it with [New].
type Controller struct {
	core
	sources sourceList

	mu      sync.Mutex // guards the fields below; acquired before the queue, cause and source locks
	running bool       // Run has been called and has not returned
	session *session   // nil before the queue exists, and after Run has stopped
	state   State
	since   time.Time // when state was entered

	unseen ownwrites.Notes // writes of the last run; only Run uses it
}

// New returns a controller that is not running and has no sources. It fails if the name or r is missing,
// or if the options are invalid.
func New(name string, r Reconciler, opts Options) (*Controller, error) {
	if name == "" {
		return nil, errors.New("controller: the name is empty: metrics and messages need one to distinguish controllers")
	}
	if !utf8.ValidString(name) || strings.ContainsFunc(name, printable.Control) {
		return nil, fmt.Errorf("controller %q: the name contains control characters or invalid UTF-8: metrics and messages cannot show it", name)
	}
	if f, ok := r.(Func); r == nil || ok && f == nil {
		return nil, fmt.Errorf("controller %s: the reconciler is nil", name)
	}
	if err := opts.complete(); err != nil {
		return nil, fmt.Errorf("controller %s: %w", name, err)
	}
	c := &Controller{
		core:    core{name: name, reconciler: r, opts: opts},
		sources: sourceList{changed: make(chan struct{}, 1)},
		since:   time.Now(),
	}
	c.track = opts.Flight.Or().Track(flight.Label{Role: flight.Controller, Name: name})
	if opts.Metrics != nil {
		var r Metrics
		err := failure.Apart("the metrics", func() error { r = opts.Metrics.Register(c); return nil })
		if err != nil {
			return nil, fmt.Errorf("controller %s: %w", name, err)
		}
		if r != nil {
			c.metrics = &guardedMetrics{metrics: r, trusted: trusted.Is(r), log: opts.Logger.With("controller", name)}
		}
	}
	return c, nil
}

// Name returns the name passed to New.
func (c *Controller) Name() string { return c.name }

// Watch adds a source. It may be called before, during or after Run. The first reconcile waits until every
// source added so far has synced; sources added after it are not waited for, unless their informers are sharded
// (factory.Scope.Shard): then each reconcile waits until every source holds its slot.
//
// The returned function removes the source: any further requests from it are ignored, but requests already
// queued are kept. If the source is the only one that tells the slots of its cluster's objects (see package shard),
// those requests are dropped. The channel is closed once everything the source started has finished. remove may be
// called more than once, even by the source itself.
func (c *Controller) Watch(source Source) (remove func() (ended <-chan struct{})) {
	s := &subscription{source: source, poke: c.sources.poke, place: cmp.Or(source.place, failure.Place(1)), ended: make(chan struct{})}
	close(s.ended)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sources.add(s)
	if c.session != nil {
		c.session.begin(s)
	}
	return func() <-chan struct{} { return c.remove(s) }
}

func (c *Controller) remove(s *subscription) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sources.remove(s)
	if s.cancel != nil {
		s.cancel()
	}
	c.sources.poke() // the controller may have been waiting for this source only
	return s.ended
}

// Run starts the sources, waits until they have synced, and reconciles until ctx is done. The contexts
// of running reconciles are canceled at the same time. Run drops the queue and returns nil once every
// reconcile and everything else it started has finished (L23). It does not run informers; a factory
// does. While Run waits for sources, [Controller.Status] and [Controller.Ready] report which ones and
// why.
//
// Run may be called again after it has returned. It then starts over and treats every object as initial.
// A concurrent call fails with ErrRunning. Without a source, Run fails with ErrNoSource.
func (c *Controller) Run(ctx context.Context) error {
	if err := c.claim(); err != nil {
		return err
	}
	defer c.release()
	s := c.begin(ctx)
	c.metrics.started(c)
	if s.awaitSources() {
		c.enter(Running)
		c.opts.Logger.Info("reconciling", "controller", c.name, "workers", c.opts.Concurrency)
		for range c.opts.Concurrency {
			s.tasks.Go(s.runWorker)
		}
	}
	<-s.ctx.Done()
	c.end(s)
	c.metrics.stopped(c.Status())
	return nil
}

// claim reserves the controller for one Run, or fails.
func (c *Controller) claim() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running {
		return fmt.Errorf("controller %s: %w", c.name, ErrRunning)
	}
	if err := c.Err(); err != nil {
		return err
	}
	c.running = true
	return nil
}

func (c *Controller) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = false
}

// begin starts a session and its sources.
func (c *Controller) begin(ctx context.Context) *session {
	session := newSession(ctx, &c.core, &c.sources, c.unseen) // without mu, because it calls the user's QueueMetrics
	c.unseen = nil
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session = session
	c.state, c.since = Waiting, time.Now()
	for _, s := range c.sources.begin() {
		session.begin(s)
	}
	return session
}

// Err returns the error that Run would fail with if a source is unusable or there are no sources. It
// returns nil if the controller can run.
func (c *Controller) Err() error {
	all := c.sources.all()
	if len(all) == 0 {
		return fmt.Errorf("controller %s: %w", c.name, ErrNoSource)
	}
	var misuse []error
	for _, s := range all {
		if err := c.sources.misuse(s); err != nil {
			misuse = append(misuse, fmt.Errorf("controller %s: source %s (%s): %w", c.name, s.source, s.place, err))
		}
	}
	return errors.Join(misuse...)
}

// end shuts a session down and waits for its goroutines.
func (c *Controller) end(s *session) {
	c.enter(Stopping)
	s.queue.ShutDown()
	s.barrier.Close()
	s.tasks.Wait()
	if c.opts.RateLimiter != nil {
		s.forgetDropped()
	}
	c.unseen = s.barrier.Left()
	c.mu.Lock()
	c.session = nil
	c.state, c.since = Stopped, time.Now()
	c.mu.Unlock()
}

func (c *Controller) enter(state State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state, c.since = state, time.Now()
}

// Ready returns nil while the controller is reconciling. Otherwise the error wraps ErrWaiting and lists
// each source that has not synced, with the reason.
func (c *Controller) Ready() error {
	c.mu.Lock()
	state := c.state
	c.mu.Unlock()
	if state == Running {
		return nil
	}
	return c.notReady(state, c.sources.waiting())
}

// Status returns a snapshot of the controller. The fields are read one after another, so they may be
// inconsistent with each other.
func (c *Controller) Status() Status {
	c.mu.Lock()
	s := Status{Name: c.name, State: c.state, Since: c.since}
	session := c.session
	c.mu.Unlock()
	if session != nil {
		s.Queue = session.queue.Status()
		s.Parked = session.barrier.Parked()
	}
	for _, source := range c.sources.all() {
		s.Sources = append(s.Sources, source.status())
	}
	n := &c.count
	s.Concurrency, s.Active = c.opts.Concurrency, int(n.active.Load())
	s.Successes, s.Requeues, s.RequeuesAfter = n.successes.Load(), n.requeues.Load(), n.delays.Load()
	s.Errors, s.Terminal, s.Panics, s.Timeouts = n.errors.Load(), n.terminals.Load(), n.panics.Load(), n.timeouts.Load()
	s.ParkedTotal, s.Stale = n.ownWrites.Parked.Load(), n.ownWrites.Stale.Load()
	s.Elsewhere, s.Held = n.elsewhere.Load(), n.held.Load()
	s.Failure = n.failure.Load()
	return s
}

// Contents returns the requests held by the controller, at most n in each list, for debugging a stuck
// controller. It is empty while the controller is not running. It takes time proportional to n plus the
// number of parked requests, and a second longer if the rate limiter blocks.
func (c *Controller) Contents(n int) (contents Contents) {
	c.mu.Lock()
	session := c.session
	c.mu.Unlock()
	if session != nil {
		contents.Contents = session.queue.Contents(n)
		requeues := 0
		for _, held := range slices.Concat(contents.Running, contents.Waiting, contents.Delayed) {
			requeues = min(requeues, held.Requeues)
		}
		for _, parked := range session.barrier.Contents(n) {
			if requeues >= 0 { // otherwise, the rate limiter would block again
				requeues = session.queue.NumRequeues(Request(parked.Request))
			}
			contents.Parked = append(contents.Parked, Parked{Key: Request(parked.Request), Until: parked.Until, Write: parked.Write, Requeues: requeues})
		}
	}
	return contents
}

// mostUnfinished is the maximum number of requests that Unfinished lists.
const mostUnfinished = 10

// Unfinished lists up to ten reconciles that have been running for SlowReconcile or longer, longest
// first. While the controller is stopping, it lists what keeps Run from returning: up to ten running
// reconciles, however long they have been running, and all sources that are still running.
func (c *Controller) Unfinished() []string {
	var all []string
	c.mu.Lock()
	session, stopping := c.session, c.state == Stopping
	for _, sub := range c.sources.all() {
		select {
		case <-sub.ended:
		default:
			if stopping {
				all = append(all, fmt.Sprintf("source %s (%s)", sub.source, sub.place))
			}
		}
	}
	c.mu.Unlock()
	if session == nil {
		return nil
	}
	now := time.Now()
	for _, held := range session.queue.Contents(mostUnfinished).Running {
		if took := now.Sub(held.Since); stopping || took >= SlowReconcile {
			all = append(all, fmt.Sprintf("reconcile of %s for %s", held.Key, took.Round(time.Second)))
		}
	}
	return all
}

// Share returns the share of the informer passed to [For], which limits the requests this controller
// reconciles. It is nil if the controller handles all objects. Each reconcile runs between the share's Enter
// and leave, with the context returned by Enter, which carries the token (shard.TokenOf) and is canceled if
// the slot is lost.
func (c *Controller) Share() shard.Share { return shareOf(c.sources.all()) }
