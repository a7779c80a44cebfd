package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/pprof"
	"time"

	"github.com/millrace-dev/millrace/controller/internal/ownwrites"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/flight"
	"github.com/millrace-dev/millrace/internal/sharding"
	"github.com/millrace-dev/millrace/workqueue"
)

// ErrTimeout is the context cause of a reconcile that took longer than Options.Timeout.
var ErrTimeout = errors.New("the reconcile took longer than the controller's timeout")

// runWorker reconciles requests until the queue is shut down. The controller's name appears in goroutine
// profiles.
func (s *session) runWorker() {
	pprof.SetGoroutineLabels(pprof.WithLabels(s.ctx, pprof.Labels("controller", s.name)))
	exited := true
	defer func() {
		if exited { // the reconciler called runtime.Goexit; the deferred call to the queue's Done has run
			s.tasks.Go(s.runWorker)
		}
	}()
	for req := range s.queue.Work(s.ctx) {
		s.process(req)
	}
	exited = false
}

// process handles a request from the queue:
//
//  1. If a source has not listed its namespace, or the cache has not seen the last reconcile's writes, set
//     the request aside.
//  2. If it is not in our share, drop it. If we cannot tell yet, try again later.
//  3. Call the reconciler.
//  4. Record its writes.
//  5. Requeue the request if necessary.
func (s *session) process(req Request) {
	if s.namespaces.hold(req) {
		return
	}
	if s.barrier.Park(ownwrites.Request(req)) {
		s.recordParked(req)
		return
	}
	slot, entered, failed := s.enterShare(req)
	if !entered && failed == nil {
		return
	}
	a := &attempt{
		Context: s.ctx, core: s.core, request: req, id: rand.Uint64(), slot: slot,
		number: s.failures.next(req), reasons: s.causes.take(req),
	}
	began := time.Now()
	s.recordTaken(req, a.number, began)
	s.count.active.Add(1)
	if failed != nil {
		s.settle(a, Result{}, failed, time.Since(began))
		return
	}
	if slot != nil {
		a.Context = slot.Context
		defer s.leaveSlot(slot)
	}
	defer s.noteReturned(a, s.noteSlow(a), began)
	result, err := s.reconcile(a, func(err error) { s.settle(a, Result{}, err, time.Since(began)) })
	s.settle(a, result, err, time.Since(began))
}

// reconcile calls the reconciler and converts a panic to an error. If the reconciler calls
// runtime.Goexit, exited is called with an error.
func (c *core) reconcile(a *attempt, exited func(error)) (result Result, err error) {
	ctx := context.Context(a)
	if c.opts.Timeout > 0 {
		limited, cancel := context.WithTimeoutCause(a.Context, c.opts.Timeout, ErrTimeout)
		defer cancel()
		a.Context = limited
	}
	guard := failure.Guard{In: "reconciler"}
	defer guard.End(&err, exited)
	a.unreturned = true
	result, err = c.reconciler.Reconcile(ctx, a.request)
	a.unreturned = false
	guard.Returned()
	return result, err
}

// settle counts a reconcile's outcome and requeues the request if necessary.
func (s *session) settle(a *attempt, result Result, err error, took time.Duration) {
	req := a.request
	s.count.active.Add(-1)
	s.metrics.reconcileTime(took)
	s.recordDone(a, result, err, took)
	if s.opts.Patience > 0 {
		s.barrier.Wrote(ownwrites.Request(req), &a.writes)
	}
	var again workqueue.AddOptions
	switch {
	case err != nil && s.ended(err):
		s.forget(req) // the run is over, so this is no failure of the request
	case err != nil && sharding.Over(a.Context):
		if _, panicked := a.panicOf(err); panicked {
			s.failed(a, err)
		}
		s.slotLost(req) // the new owner of the slot starts from scratch
	case IsTerminal(err):
		s.failed(a, err)
		s.forget(req)
	case err != nil:
		s.failed(a, err)
		s.failures.add(req, a.number)
		again = retry(err)
		s.enqueue(req, Failed, nil, req.Key, a.reasons.placement, a.reasons.urgent, again)
	case result.RequeueAfter > 0:
		s.count.delays.Add(1)
		s.forget(req)
		again.After = result.RequeueAfter
		s.enqueue(req, Requeued, nil, req.Key, a.reasons.placement, a.reasons.urgent, again)
	case result.Requeue, result.RequeueAfter < 0:
		s.count.requeues.Add(1)
		s.failures.end(req)
		again.RateLimited = true
		s.enqueue(req, Requeued, nil, req.Key, a.reasons.placement, a.reasons.urgent, again)
	default:
		s.count.successes.Add(1)
		s.forget(req)
	}
}

// noteSlow logs the reconcile if it is still running after SlowReconcile.
func (s *session) noteSlow(a *attempt) *time.Timer {
	s.tasks.Add(1) // for the timer
	return time.AfterFunc(SlowReconcile, func() {
		defer s.tasks.Done()
		s.slow.Do(func(more int) {
			a.slow.Store(true)
			a.logger().Warn("a reconcile has not returned", "for", SlowReconcile.String(), "causes", a.reasons.list(a.request), "more", more)
		})
	})
}

// noteReturned stops noteSlow's timer, or logs that a slow reconcile has returned.
func (s *session) noteReturned(a *attempt, timer *time.Timer, began time.Time) {
	if timer.Stop() {
		s.tasks.Done()
	} else if a.slow.Load() {
		a.logger().Info("a slow reconcile has returned", "after", time.Since(began).Round(time.Millisecond).String())
	}
}

// ended reports whether err only means that the run is over.
func (s *session) ended(err error) bool {
	return s.ctx.Err() != nil && (errors.Is(err, s.ctx.Err()) || errors.Is(err, context.Cause(s.ctx)))
}

// fewConflicts is the number of consecutive conflicts that are logged at debug level; any beyond that are
// logged as errors. Conflicts are normal if other clients write the same objects, and the retry waits for
// the cache.
const fewConflicts = 3

// failed counts and reports a reconcile's error.
func (c *core) failed(a *attempt, err error) {
	if c.opts.Timeout > 0 && errors.Is(context.Cause(a.Context), ErrTimeout) {
		c.count.timeouts.Add(1)
		if !errors.Is(err, ErrTimeout) { // the error from an interrupted call only mentions a deadline
			err = fmt.Errorf("%w (%s): %w", ErrTimeout, c.opts.Timeout, err)
		}
	}
	now := time.Now()
	f := &Failure{Request: a.request, Err: err, Attempts: a.number, Last: now}
	c.count.failure.Store(f)
	c.count.errors.Add(1)
	if IsTerminal(err) {
		c.count.terminals.Add(1)
	}
	level := slog.LevelError
	if isConflict(err) && !IsTerminal(err) && a.number <= fewConflicts {
		level = slog.LevelDebug
	}
	reportAt(a.logger(), level, "reconcile failed", err)
	p, panicked := a.panicOf(err)
	if !panicked {
		return
	}
	c.count.panics.Add(1)
	if c.opts.CrashOnPanic {
		c.opts.Flight.Or().Crashing()
		panic(fmt.Sprintf("controller %s: %s\n%s", c.name, f.Error(), p.Stack))
	}
}

// recordDone records a reconcile's outcome.
func (s *session) recordDone(a *attempt, result Result, err error, took time.Duration) {
	e := flight.Event{Kind: flight.Done, Attempt: a.number, Took: took, Outcome: "success"}
	_, panicked := a.panicOf(err)
	switch {
	case err != nil && (s.ended(err) || sharding.Over(a.Context)) && !panicked:
		e.Outcome = "cancelled"
	case IsTerminal(err):
		e.Outcome, e.Text = "terminal error", fmt.Sprint(err)
	case err != nil:
		e.Outcome, e.Text = "error", fmt.Sprint(err)
	case result.RequeueAfter > 0:
		e.Outcome = "again later"
	case result.Requeue, result.RequeueAfter < 0:
		e.Outcome = "again"
	}
	s.record(a.request, &e)
}
