package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/millrace-dev/millrace/controller/internal/ownwrites"
	"github.com/millrace-dev/millrace/failure"
	"github.com/millrace-dev/millrace/internal/sharding"
	"github.com/millrace-dev/millrace/workqueue"
)

// ErrTimeout is the cause of the end of a context whose reconcile took longer
// than Options.Timeout.
var ErrTimeout = errors.New("the reconcile took longer than the controller's timeout")

// work reconciles what the queue hands out until it is shut down.
func (s *session) work() {
	exited := true
	defer func() {
		if exited { // by the reconciler; the queue's own deferred Done has been called
			s.tasks.Go(s.work)
		}
	}()
	for req := range s.queue.Work(s.ctx) {
		s.turn(req)
	}
	exited = false
}

// turn is what is done with one request that was handed out:
//
//  1. If a source does not have its namespace yet, or the cache has not seen what the last
//     reconcile wrote, put it aside.
//  2. If it is not in our share, let go of it. If the share cannot say, try again later.
//  3. Call the reconciler.
//  4. Note what it wrote.
//  5. Add the request again, if that was asked for.
func (s *session) turn(req Request) {
	if s.hold(req) {
		return
	}
	if s.barrier.Park(ownwrites.Request(req)) {
		s.parked(req)
		return
	}
	c := s.controller
	slot, entered, failed := s.enter(req)
	if !entered && failed == nil {
		return
	}
	a := &attempt{
		Context: s.ctx, controller: c, request: req, id: rand.Uint64(), slot: slot,
		number: s.streaks.next(req), reasons: s.causes.take(req),
	}
	began := time.Now()
	s.taken(a, began)
	c.count.active.Add(1)
	if failed != nil {
		s.settle(a, Result{}, failed, time.Since(began))
		return
	}
	if slot != nil {
		a.Context = slot.Context
		defer s.leave(slot)
	}
	defer s.attended(a, s.attend(a), began)
	result, err := c.call(a, func(err error) { s.settle(a, Result{}, err, time.Since(began)) })
	s.settle(a, result, err, time.Since(began))
}

// call calls the reconciler and turns its panic into an error. Where the
// reconciler ends the goroutine, exited is called with the reason.
func (c *Controller) call(a *attempt, exited func(error)) (result Result, err error) {
	ctx := context.Context(a)
	if c.opts.Timeout > 0 {
		limited, cancel := context.WithTimeoutCause(a.Context, c.opts.Timeout, ErrTimeout)
		defer cancel()
		a.Context = limited
	}
	guard := failure.Guard{In: "reconciler"}
	defer guard.End(&err, exited)
	result, err = c.reconciler.Reconcile(ctx, a.request)
	guard.Returned()
	return result, err
}

// settle counts what a reconcile came to and adds the request again, if that was
// asked for.
func (s *session) settle(a *attempt, result Result, err error, took time.Duration) {
	c, req := s.controller, a.request
	c.count.active.Add(-1)
	c.metrics.reconcileTime(took)
	s.done(a, result, err, took)
	if c.opts.Patience > 0 {
		s.barrier.Wrote(ownwrites.Request(req), &a.writes)
	}
	var again workqueue.AddOptions
	switch {
	case err != nil && s.ended(err):
		return // it is nothing of the request's
	case err != nil && sharding.Over(a.Context):
		s.drop(req) // who has it now begins anew
	case IsTerminal(err):
		c.failed(a, err)
		s.queue.Forget(req)
		s.streaks.end(req)
	case err != nil:
		c.failed(a, err)
		s.streaks.failed(req, a.number)
		again = retry(err)
		s.ask(req, Failed, nil, req.Key, a.reasons.placement, a.reasons.urgent, again)
	case result.RequeueAfter > 0:
		c.count.delays.Add(1)
		s.streaks.end(req)
		s.queue.Forget(req)
		again.After = result.RequeueAfter
		s.ask(req, Requeued, nil, req.Key, a.reasons.placement, a.reasons.urgent, again)
	case result.Requeue, result.RequeueAfter < 0:
		c.count.requeues.Add(1)
		s.streaks.end(req)
		again.RateLimited = true
		s.ask(req, Requeued, nil, req.Key, a.reasons.placement, a.reasons.urgent, again)
	default:
		c.count.successes.Add(1)
		s.streaks.end(req)
		s.queue.Forget(req)
	}
}

// ended reports whether err is the end of the run.
func (s *session) ended(err error) bool {
	return s.ctx.Err() != nil && (errors.Is(err, s.ctx.Err()) || errors.Is(err, context.Cause(s.ctx)))
}

// fewConflicts is how many attempts in a row may end in a conflict before that is an error in the
// log. Conflicts are expected if others write the same objects, and the retry waits for the cache.
const fewConflicts = 3

// failed counts and reports the error of a reconcile.
func (c *Controller) failed(a *attempt, err error) {
	if c.opts.Timeout > 0 && errors.Is(context.Cause(a.Context), ErrTimeout) {
		c.count.timeouts.Add(1)
		if !errors.Is(err, ErrTimeout) { // a call that was cut short knows only of a deadline
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
	p, panicked := errors.AsType[*failure.PanicError](err)
	if !panicked {
		return
	}
	c.count.panics.Add(1)
	if c.opts.CrashOnPanic {
		c.opts.Flight.Or().Crashing()
		panic(fmt.Sprintf("controller %s: %s\n%s", c.name, f.Error(), p.Stack))
	}
}
